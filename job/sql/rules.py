"""The typing rules of functions and operators: arguments of any types in, a call of the plan's alphabet out.

Each rule takes the call as written and its typed arguments and inserts the casts Spark would make without
being asked. Where Spark's ANSI rules refuse a mix of types, or the meaning would surprise, the rule refuses
and says what to write.
"""

from __future__ import annotations

from collections.abc import Sequence

from job.functions import SQL_FUNCTIONS
from job.plan import Expr
from job.sql import function_rules, operator_rules
from job.sql.application import Application
from job.sql.syntax import Apply

_RULES = operator_rules.RULES | function_rules.RULES


def apply_rule(sql: str, node: Apply, arguments: Sequence[Expr]) -> Expr:
    """The typed call of a known function over typed arguments. Raises SqlError."""
    function = SQL_FUNCTIONS[node.function]
    return _RULES[function.rule](Application(sql, function, node, arguments))
