"""sqlglot's Spark dialect, cut down to plain syntax: every function call stays a call by the name the text
has, and every word of the text counts.

sqlglot rewrites functions into a vocabulary of its own, which serves translation between engines but loses
what was written and where. Here a call is `exp.Anonymous` with its position, except the few with a grammar of
their own (CAST, TRY_CAST, CASE, EXTRACT, SUBSTRING ... FROM, TRIM ... FROM). sqlglot also passes over words of
a text that make no sense, such as a trailing comma, without a trace in the tree; the methods overridden here
refuse those. Importing this module imports sqlglot (about 100 ms).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

# What sqlglot would warn of on standard error is refused here, or does not matter.
logging.getLogger("sqlglot").addHandler(logging.NullHandler())

_OWN_GRAMMAR = ("CAST", "TRY_CAST", "EXTRACT", "SUBSTRING", "SUBSTR", "TRIM")
_GROUPINGS = (TokenType.ROLLUP, TokenType.CUBE, TokenType.GROUPING_SETS)


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

    def _parse_csv(self, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA) -> list[Any]:
        """As the parent's, which drops a comma with nothing on one side."""
        items = [parse_method()]
        while self._match(sep):
            comma = self._prev
            if items[-1] is None:
                self.raise_error("an expression is missing before this comma", comma)
            items.append(parse_method())
            # GROUP BY a, ROLLUP (b): sqlglot goes on with the ROLLUP behind the comma.
            if items[-1] is None and not self._match_set(_GROUPINGS, advance=False):
                self.raise_error("an expression is missing behind this comma", comma)
        return [item for item in items if item is not None]

    def _parse_join(self, *args: Any, **kwargs: Any) -> Any:
        comma = self._curr if self._match(TokenType.COMMA, advance=False) else None
        join = super()._parse_join(*args, **kwargs)
        if comma is not None and join is None:
            self.raise_error("something is missing behind this comma", comma)
        return join

    def _parse_table_parts(self, *args: Any, **kwargs: Any) -> Any:
        table = super()._parse_table_parts(*args, **kwargs)
        if self._match(TokenType.STAR, advance=False):
            self.raise_error("* means nothing behind a source")
        return table

    def _parse_star_op(self, *keywords: str) -> Any:
        if self._match_texts(keywords, advance=False):
            self.raise_error(f"{self._curr.text.upper()} cannot follow *")

    def _parse_limit_options(self) -> None:
        """The parent takes PERCENT, ROWS, ONLY and WITH TIES, and drops some."""

    def _parse_limit_by(self) -> None:
        """The parent takes LIMIT n BY with nothing behind it."""

    def _parse_type_size(self) -> Any:
        size = self._parse_number()
        return self.expression(exp.DataTypeParam(this=size)) if size is not None else None

    def _parse_types(self, *args: Any, **kwargs: Any) -> Any:
        start = self._index
        kind = super()._parse_types(*args, **kwargs)
        written = [token.token_type for token in self._tokens[start + 1 : self._index]]
        if written[-2:] == [TokenType.L_PAREN, TokenType.R_PAREN]:
            self.raise_error("a number is missing between these parentheses", self._prev)
        return kind

    def _parse_cast(self, strict: bool, safe: bool | None = None) -> Any:
        """operand AS type; the parent also takes formats, defaults and actions of other engines."""
        operand = self._parse_assignment()
        if not self._match(TokenType.ALIAS):
            self.raise_error("CAST is written CAST(x AS type)")
        target = self._parse_types()
        if target is None:
            self.raise_error("a type such as BIGINT or DECIMAL(10, 2) is expected here")
        if isinstance(target, exp.Identifier):
            target = exp.DataType.from_str(target.name, dialect=self.dialect, udt=True)
        return self._closed(self.build_cast(strict=strict, this=operand, to=target, safe=safe))

    def _parse_substring(self) -> Any:
        """text, start[, length] or text FROM start [FOR length]."""
        node = exp.Substring(this=self._parse_bitwise())
        plain = self._match(TokenType.COMMA, advance=False)
        for part, word in (("start", TokenType.FROM), ("length", TokenType.FOR)):
            if self._match(TokenType.COMMA if plain else word):
                node.set(part, self._parse_bitwise())
                if node.args.get(part) is None:
                    self.raise_error("an expression is missing behind this", self._prev)
        return self._closed(self.expression(node))

    def _parse_trim(self) -> Any:
        return self._closed(super()._parse_trim())

    def _parse_extract(self) -> Any:
        return self._closed(super()._parse_extract())

    def _closed(self, node: Any) -> Any:
        """The node of a function with its own grammar, behind which sqlglot does not ask for the parenthesis."""
        if not self._match(TokenType.R_PAREN, advance=False):
            self.raise_error("a closing parenthesis is expected here")
        return node


class PlainSpark(Spark):
    """Spark's dialect with `window` as an ordinary function name, so that GROUP BY window(...) parses."""

    class Tokenizer(Spark.Tokenizer):
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: token for word, token in Spark.Tokenizer.KEYWORDS.items() if word != "WINDOW"
        }

    Parser = PlainParser
