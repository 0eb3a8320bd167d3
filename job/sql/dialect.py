"""sqlglot's Spark dialect, cut down to plain syntax: every function call stays a call by the name the text
has.

sqlglot rewrites functions into a vocabulary of its own, which serves translation between engines but loses
what was written and where. Here a call is `exp.Anonymous` with its position, except the few with a grammar of
their own (CAST, TRY_CAST, CASE, EXTRACT, SUBSTRING ... FROM, TRIM ... FROM). Importing this module imports
sqlglot (about 100 ms).
"""

from __future__ import annotations

import logging
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

# What sqlglot would warn of on standard error is refused here, or does not matter.
logging.getLogger("sqlglot").addHandler(logging.NullHandler())

_OWN_GRAMMAR = ("CAST", "TRY_CAST", "EXTRACT", "SUBSTRING", "SUBSTR", "TRIM")


class PlainParser(SparkParser):
    """Parses functions as plain calls and notes in `meta` where each node was written."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: SparkParser.FUNCTION_PARSERS[name] for name in _OWN_GRAMMAR
    }
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        "CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"]
    }

    def expression(self, instance: Any, token: Token | None = None, comments: list[str] | None = None) -> Any:
        """As the parent's; a node that the parser wrote itself (implied parentheses) never comes through
        here.
        """
        node = super().expression(instance, token, comments)
        if self._prev and "start" not in node.meta:
            node.meta["start"], node.meta["end"] = self._prev.start, self._prev.end
        node.meta["written"] = True
        return node

    def _parse_expression(self) -> exp.Expr | None:
        start = self._curr.start if self._curr else 0
        written = self._parse_assignment()
        end = self._prev.end if self._prev else start
        node = self._parse_alias(written)
        if node is not None:
            node.meta["span"] = (start, end + 1)
        return node


class PlainSpark(Spark):
    """Spark's dialect with `window` as an ordinary function name, so that GROUP BY window(...) parses."""

    class Tokenizer(Spark.Tokenizer):
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: token for word, token in Spark.Tokenizer.KEYWORDS.items() if word != "WINDOW"
        }

    Parser = PlainParser
