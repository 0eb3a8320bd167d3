"""SQL text to typed plans. The only package that imports sqlglot, and only when a text is compiled."""

from __future__ import annotations

from collections.abc import Mapping

from job.plan import Plan, Schema

__all__ = ["Schema", "compile_sql"]

_NO_PARAMETERS: Mapping[str, object] = {}


def compile_sql(
    sql: str, schemas: Mapping[str, Schema], parameters: Mapping[str, object] = _NO_PARAMETERS
) -> Plan:
    """The plan of a query (docs/SQL.md) over the sources of `schemas`.

    `parameters` binds `:name`s to None, bool, int, float, Decimal, str or datetime (naive: UTC). Raises
    SqlError for the text and ParameterError for the parameters. The first call takes 100 ms more, to import
    the parser.
    """
    from job.sql.parse import parse
    from job.sql.query import Compiler

    return Compiler(sql, schemas, parameters).plan(parse(sql))
