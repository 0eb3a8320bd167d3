"""What the plain-Python functions raise for a row that has no result."""


class Failure(Exception):  # noqa: N818 - a row's failure is an outcome, not an error of the program
    """The call fails for this row: it is NULL and counted."""
