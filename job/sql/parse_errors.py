"""What sqlglot's parser complains of, said so that the asker can mend it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import TokenType as T

from job.errors import SqlError
from job.sql.near_names import did_you_mean

_KEYWORDS = ("SELECT", "DISTINCT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "AND", "BETWEEN", "LIKE")
_WORD_ADVICE = {
    "TOP": "Write LIMIT 10 at the end.",
    "GROUP": "Write GROUP BY.",
    "ORDER": "Write ORDER BY.",
    "CONTAINS": "Write contains(text, search).",
    "STARTSWITH": "Write startswith(text, search).",
    "ENDSWITH": "Write endswith(text, search).",
    "FETCH": "Write LIMIT 5.",
    "|": "There are no pipes: write WHERE, GROUP BY and ORDER BY.",
}
_MISSING_ADVICE = {
    "Between": "Write x BETWEEN low AND high.",
    "Mod": "% is the remainder of a division; for a percentage write 100 * a / b.",
}
_CLASS = re.compile(r"missing for <class '[\w.]*\.(\w+)'>")
_FILES = "Write FROM access; files are given on the command line, outside of the query."


def parse_error(sql: str, tokens: Sequence[Any], error: ParseError) -> SqlError:
    """The SqlError of a ParseError: what was not understood, where, and what may have been meant."""
    detail = error.errors[0] if error.errors else {}
    description = str(detail.get("description") or "syntax error").rstrip(".").split(" but got ")[0]
    index = _token_index(sql, tokens, detail)
    if description.startswith("Required keyword"):
        return _missing(sql, tokens, index, description)
    if description.startswith("Invalid expression"):
        return _unexpected(sql, tokens, index)
    token, advice = tokens[index], ""
    if description == "Expecting )":
        description = "a comma, an operator or a closing parenthesis is expected here"
        advice = "Write lists with commas: (1, 2)."
    elif description.endswith("this comma"):
        advice = "Leave the comma out; numbers are written without: 1000."
    elif description == "Expected table name":
        description, advice = "the name of a source is expected here", _FILES
    elif description == "Expected END after CASE":
        description = "CASE does not end with END"
        advice = "Write CASE WHEN condition THEN value ELSE value END."
    elif description.startswith("Found multiple"):
        description, advice = "this clause is written twice", "Join conditions with AND."
    return SqlError(_near(token, description), sql, token.start, advice)


def _near(token: Any, what: str) -> str:
    return f"the query cannot be read near {token.text!r}: {what}"


def _token_index(sql: str, tokens: Sequence[Any], detail: dict[str, Any]) -> int:
    """Which token the parser stopped at; the last one where it does not say."""
    line, column, near = detail.get("line"), detail.get("col"), str(detail.get("highlight") or "")
    if not isinstance(line, int) or not isinstance(column, int):
        return len(tokens) - 1
    position = sum(len(text) + 1 for text in sql.split("\n")[: line - 1]) + column - len(near)
    starts = [index for index, token in enumerate(tokens) if token.start <= max(position, 0)]
    return starts[-1] if starts else len(tokens) - 1


def _missing(sql: str, tokens: Sequence[Any], index: int, description: str) -> SqlError:
    """The parser stands behind the gap, or at the last token where the text ends."""
    found = _CLASS.search(description)
    token = tokens[index] if index == len(tokens) - 1 else tokens[max(index - 1, 0)]
    advice = _MISSING_ADVICE.get(found[1] if found else "", "Write an expression there, or leave this word out.")
    return SqlError(_near(token, "something is missing behind it"), sql, token.start, advice)


def _unexpected(sql: str, tokens: Sequence[Any], index: int) -> SqlError:
    token, before = tokens[index], tokens[max(index - 1, 0)]
    for suspect in (token, before):
        advice = _word_advice(suspect)
        if advice:
            return SqlError(_near(suspect, "this word is not expected here"), sql, suspect.start, advice)
    if token.token_type == T.L_PAREN and before.text.replace("_", "").isalnum():
        token = before
    advice = "Before it a comma, an operator, AND or OR may be missing."
    if token.token_type in (T.COMMA, T.R_PAREN):
        advice = "Leave it out, or write what is missing before it."
    return SqlError(_near(token, "this word is not expected here"), sql, token.start, advice)


def _word_advice(token: Any) -> str:
    word = token.text.upper()
    if token.token_type in (T.STRING, T.IDENTIFIER, T.NUMBER):
        return ""
    if word in _WORD_ADVICE:
        return _WORD_ADVICE[word]
    return "" if word in _KEYWORDS or len(word) < 4 else did_you_mean(word, _KEYWORDS)
