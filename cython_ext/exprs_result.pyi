from cython_ext.column import Column

class Failures:
    count: int
    mask: Column | None
    def __init__(self) -> None: ...
    def add_rows(self, flags: Column) -> None: ...
