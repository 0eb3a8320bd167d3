"""What a list of tokens cannot be, whatever the grammar makes of it: sqlglot accepts much of this in silence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sqlglot.tokenizer_core import TokenType as T

from job.errors import SqlError
from job.sql.limits import NESTING_MAX, TOKENS_MAX
from job.sql.near_names import did_you_mean

_JSON = "With the json format, name the key: user.id."
_MEANINGLESS = {
    **dict.fromkeys(("->", "->>", "#>", "#>>"), _JSON),
    "=>": "Write >=.",
    "&&": "Write AND.",
    "~": "Write x RLIKE 'pattern'.",
    "^": "There is no power and no exclusive or.",
    **dict.fromkeys(("$", "@", "?"), "A parameter is written :name, a field by its name alone."),
    **dict.fromkeys(("|>", "{", "}", "??"), "A query is SELECT ... FROM access WHERE ... GROUP BY ..."),
}
_CURLY = re.compile("[\u2018-\u201f]")
_LINE_COMMENT = re.compile(r"--[^\n]*")

_NO_OPERAND = "an expression is missing before this comma"
_NO_EXPRESSION = "an expression is missing before AS"
_NO_TEXT = "an expression is missing before this sign"
_NO_NAME = "a name is missing behind AS"
_PAIRS: dict[tuple[Any, Any], tuple[str, str]] = {
    **dict.fromkeys(((T.COMMA, T.COMMA), (T.L_PAREN, T.COMMA), (T.LIMIT, T.COMMA)), (_NO_OPERAND, "")),
    **dict.fromkeys(((first, T.ALIAS) for first in (T.SELECT, T.DISTINCT, T.ALL, T.COMMA)), (_NO_EXPRESSION, "")),
    **dict.fromkeys(((T.ALIAS, last) for last in (T.COMMA, T.R_PAREN, T.SEMICOLON)), (_NO_NAME, "")),
    (T.EQ, T.LT): ("=< is no operator", "Write <=."),
    (T.EQ, T.EQ): ("=== is no operator", "Write =."),
    (T.EQ, T.SLASH): (_NO_TEXT, "Put a text in quotes: '/index.html'."),
    (T.NEQ, T.SLASH): (_NO_TEXT, "Put a text in quotes: '/index.html'."),
    **dict.fromkeys(((T.IN, kind) for kind in (T.NUMBER, T.STRING, T.VAR)), ("IN takes a list", "Write x IN (1, 2).")),
    (T.ASC, T.DESC): ("a term of ORDER BY is either ASC or DESC", "Leave one out."),
    (T.COMMA, T.ALL): ("ALL cannot stand behind a comma", "Leave it out; a column of that name needs backticks."),
}
"""Neighbours that make no sense: the message with its caret at the second, and the advice."""


def check_tokens(sql: str, tokens: Sequence[Any]) -> None:
    """Raises SqlError for too many tokens, wrong neighbours, signs without meaning, hints, unpaired parentheses and
    a second statement. Linear time.
    """
    if len(tokens) > TOKENS_MAX:
        raise SqlError(f"the query has {len(tokens)} words and signs, the limit is {TOKENS_MAX}", sql)
    if not tokens or tokens[0].text.upper() not in ("SELECT", "WITH", "("):
        position = tokens[0].start if tokens else None
        advice = "Write for example: SELECT count(*) FROM access"
        if tokens and did_you_mean(tokens[0].text, ["SELECT"]):
            advice = "Did you mean SELECT?"
        raise SqlError("a query starts with SELECT", sql, position, advice)
    _check_hints(sql, tokens)
    earlier: Any = None
    before: Any = None
    for token in tokens:
        kind = token.token_type
        if (earlier, before) == (T.FILTER, T.L_PAREN) and kind != T.WHERE:
            raise SqlError("WHERE is missing here", sql, token.start, "Write FILTER (WHERE condition).")
        if (before, kind) in _PAIRS:
            message, advice = _PAIRS[before, kind]
            raise SqlError(message, sql, token.start, advice)
        if before == T.SEMICOLON and kind != T.SEMICOLON:
            raise SqlError("more than one statement", sql, token.start, "Write one SELECT.")
        if token.text in _MEANINGLESS and kind not in (T.STRING, T.IDENTIFIER):
            raise SqlError(f"{token.text} means nothing here", sql, token.start, _MEANINGLESS[token.text])
        if kind == T.VAR and _CURLY.search(token.text):
            raise SqlError("a curly quote is no quote", sql, token.start, "Write straight quotes: 'text'.")
        earlier, before = before, kind
    if before == T.ALIAS:
        raise SqlError(_NO_NAME, sql, tokens[-1].start)
    _check_parentheses(sql, tokens)


def _check_hints(sql: str, tokens: Sequence[Any]) -> None:
    """sqlglot takes most hints for comments, which lie between the tokens."""
    end = 0
    for token in (*tokens, None):
        until = len(sql) if token is None else token.end + 1 if token.token_type == T.HINT else token.start
        hint = sql.find("/*+", end, until)
        if hint >= 0 and "/*+" in _LINE_COMMENT.sub("", sql[end : hint + 3]):
            raise SqlError("hints (/*+ ... */) are not supported", sql, hint, "They mean nothing here; leave them out.")
        end = token.end + 1 if token is not None else end


def _check_parentheses(sql: str, tokens: Sequence[Any]) -> None:
    opened: list[int] = []
    for token in tokens:
        if token.token_type == T.L_PAREN:
            opened.append(token.start)
        elif token.token_type == T.R_PAREN:
            if not opened:
                raise SqlError("this parenthesis closes nothing", sql, token.start, "Leave it out.")
            opened.pop()
        if len(opened) > NESTING_MAX:
            raise SqlError(f"more than {NESTING_MAX} parentheses inside each other", sql, token.start)
    if opened:
        raise SqlError("this parenthesis is not closed", sql, opened[-1], "Write ) where it ends.")
