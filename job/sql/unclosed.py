"""Where a quote, a backtick or a comment opens that never closes."""

from __future__ import annotations

import re

from job.errors import SqlError

_CLOSED = re.compile(
    r"""[^'"`/\-]+ | --[^\n]* | /\*(?:[^*]|\*(?!/))*\*/ | [rR]'[^']*' | [rR]"[^"]*"
    | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*` | /(?!\*) | -(?!-)""",
    re.VERBOSE | re.DOTALL,
)
_NAMES = {
    "'": ("this quote is not closed", "Write ' where the text ends; a quote inside a text is written twice: 'it''s'."),
    '"': ("this quote is not closed", 'Write " where the text ends; a quote inside a text is written twice.'),
    "`": ("this backtick is not closed", "Write ` where the name ends."),
    "/": ("this comment is not closed", "Write */ where it ends."),
}


def unclosed(sql: str) -> SqlError:
    """The error for a text that cannot be cut into words. Linear time."""
    position = 0
    while position < len(sql):
        match = _CLOSED.match(sql, position)
        if match is None:
            message, advice = _NAMES[sql[position]]
            return SqlError(message, sql, position, advice)
        position = match.end()
    return SqlError("the text cannot be cut into words", sql)
