"""Nothing that sqlglot noted in its tree is passed over in silence.

`READ` lists, for every kind of node that the readers know, the parts that they read. Whatever else a tree holds is
refused by name. sqlglot may learn new clauses: they are refused here until someone reads them.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from job.errors import SqlError

_BOTH = frozenset(("this", "expression"))
_THIS = frozenset(("this",))
_LIST = frozenset(("expressions",))

READ: dict[type, frozenset[str]] = {
    exp.Select: frozenset(("expressions", "from_", "where", "group", "having", "order", "limit", "distinct")),
    exp.From: _THIS,
    exp.Table: frozenset(("this", "alias")),
    exp.Subquery: frozenset(("this", "alias")),
    exp.TableAlias: _THIS,
    exp.Identifier: frozenset(("this", "quoted")),
    exp.Alias: frozenset(("this", "alias")),
    exp.Distinct: _LIST,
    exp.Where: _THIS,
    exp.Having: _THIS,
    exp.Group: frozenset(("expressions", "all")),
    exp.Order: _LIST,
    exp.Ordered: frozenset(("this", "desc", "nulls_first")),
    exp.Limit: frozenset(("expression",)),
    exp.Paren: _THIS,
    exp.Column: frozenset(("this", "table", "db", "catalog")),
    exp.Dot: _BOTH,
    exp.Literal: frozenset(("this", "is_string")),
    exp.Concat: _LIST,
    exp.RawString: _THIS,
    exp.Boolean: _THIS,
    exp.Null: frozenset(),
    exp.Placeholder: _THIS,
    exp.Neg: _THIS,
    exp.Not: _THIS,
    exp.Cast: frozenset(("this", "to")),
    exp.TryCast: frozenset(("this", "to", "safe")),
    exp.DataType: frozenset(("this", "expressions", "kind")),
    exp.DataTypeParam: _THIS,
    exp.Case: frozenset(("this", "ifs", "default")),
    exp.If: frozenset(("this", "true")),
    exp.In: frozenset(("this", "expressions")),
    exp.Between: frozenset(("this", "low", "high")),
    exp.Like: frozenset(("this", "expression", "negate")),
    exp.Escape: _BOTH,
    exp.Is: frozenset(("this", "expression", "negate")),
    exp.Anonymous: frozenset(("this", "expressions")),
    exp.Filter: _BOTH,
    exp.Substring: frozenset(("this", "start", "length")),
    exp.Trim: frozenset(("this", "position", "expression")),
    exp.Extract: _BOTH,
    exp.Interval: frozenset(("this", "unit")),
    exp.Star: frozenset(),
    exp.Var: _THIS,
    **dict.fromkeys(
        (
            exp.Add,
            exp.Sub,
            exp.Mul,
            exp.Mod,
            exp.IntDiv,
            exp.EQ,
            exp.NEQ,
            exp.LT,
            exp.LTE,
            exp.GT,
            exp.GTE,
            exp.NullSafeEQ,
            exp.NullSafeNEQ,
            exp.RegexpLike,
            exp.And,
            exp.Or,
        ),
        _BOTH,
    ),
    # `typed` and `safe` are no words of the text: they say how Spark divides and joins texts.
    exp.Div: _BOTH | {"typed", "safe"},
    exp.DPipe: _BOTH | {"safe"},
}


def refuse_leftovers(sql: str, root: Any) -> None:
    """Raises SqlError for the first part of a tree that no reader reads. Linear time."""
    waiting = [(root, 0)]
    while waiting:
        node, position = waiting.pop()
        position = node.meta.get("start", position)
        read = READ.get(type(node))
        for part, value in node.args.items():
            if value is None or value is False or value == []:
                continue
            if read is None or part not in read:
                raise SqlError(f"{_name(node, part)} is not supported", sql, position)
            children = value if isinstance(value, list) else [value]
            waiting += [(child, position) for child in children if isinstance(child, exp.Expr)]


def _name(node: Any, part: str) -> str:
    word = part.strip("_").upper().replace("_", " ")
    return f"{word} of {type(node).__name__.upper()}" if type(node) in READ else type(node).__name__.upper()
