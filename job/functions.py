"""The functions of the language, in three tables that everyone reads.

FUNCTIONS is the alphabet of plans (docs/EXPRESSIONS.md): what a function may raise per row, whether it takes
the slow path, and how Spark says it. SQL_FUNCTIONS and AGGREGATES say what a query may call, under which
names and with which arguments, and which rule types the call. `job.sql` types by them, `job.spark_sql`
renders by them.
"""

from __future__ import annotations

import msgspec

from job.plan import Call, Expr
from job.types import BIGINT, BOOLEAN, STRING, TIMESTAMP, Kind, Type

_NEVER: frozenset[Kind] = frozenset()
_ALWAYS = frozenset(Kind)
_INTEGRAL = frozenset((Kind.BIGINT, Kind.DECIMAL))
_BIGINT = frozenset((Kind.BIGINT,))


class Function(msgspec.Struct, frozen=True):
    """A function of plans.

    `fails_on` are the kinds of the first argument for which a row can fail. `spark` is its form in Spark SQL
    over rendered arguments {0}, {1}, ...; empty where `job.spark_sql` needs more than a template. `slow`:
    evaluated once per distinct value outside the kernels.
    """

    name: str
    spark: str = ""
    fails_on: frozenset[Kind] = _NEVER
    slow: bool = False


def _table(*functions: Function) -> dict[str, Function]:
    return {function.name: function for function in functions}


FUNCTIONS = _table(
    Function("and"),
    Function("or"),
    Function("not", "(NOT {0})"),
    Function("eq", "({0} = {1})"),
    Function("ne", "({0} <> {1})"),
    Function("lt", "({0} < {1})"),
    Function("le", "({0} <= {1})"),
    Function("gt", "({0} > {1})"),
    Function("ge", "({0} >= {1})"),
    Function("eq_null_safe", "({0} <=> {1})"),
    Function("is_null", "({0} IS NULL)"),
    Function("is_not_null", "({0} IS NOT NULL)"),
    Function("in"),
    Function("add", "try_add({0}, {1})", _INTEGRAL),
    Function("sub", "try_subtract({0}, {1})", _INTEGRAL),
    Function("mul", "try_multiply({0}, {1})", _INTEGRAL),
    Function("div", "try_divide({0}, {1})", _ALWAYS),
    Function("int_div", "", _ALWAYS),
    Function("mod", "try_mod({0}, {1})", _ALWAYS),
    Function("neg", "", _BIGINT),
    Function("abs", "", _BIGINT),
    Function("floor", "", frozenset((Kind.DOUBLE,))),
    Function("ceil", "", frozenset((Kind.DOUBLE,))),
    Function("round", "", _INTEGRAL),
    Function("greatest", "greatest({*})"),
    Function("least", "least({*})"),
    Function("case"),
    Function("coalesce", "coalesce({*})"),
    Function("nullif", "nullif({0}, {1})"),
    Function("cast", "", _ALWAYS),
    Function("try_cast", ""),
    Function("like", "({0} LIKE {1} ESCAPE {2})"),
    Function("rlike", "({0} RLIKE {1})", slow=True),
    Function("regexp_extract", "regexp_extract({0}, {1}, {2})", slow=True),
    Function("lower", "lower({0})"),
    Function("upper", "upper({0})"),
    Function("trim", "trim(BOTH {1} FROM {0})"),
    Function("ltrim", "trim(LEADING {1} FROM {0})"),
    Function("rtrim", "trim(TRAILING {1} FROM {0})"),
    Function("length", "CAST(length({0}) AS BIGINT)"),
    Function("substr", "substr({0}, {1}, {2})"),
    Function("split_part", "split_part({0}, {1}, nullif({2}, 0))", _ALWAYS),
    Function("concat", "concat({*})"),
    Function("replace", "replace({0}, {1}, {2})"),
    Function("starts_with", "startswith({0}, {1})"),
    Function("ends_with", "endswith({0}, {1})"),
    Function("contains", "contains({0}, {1})"),
    Function("parse_url", "try_parse_url({*})", _ALWAYS, slow=True),
    Function("url_decode", "try_url_decode({0})", _ALWAYS, slow=True),
    Function("date_trunc", "date_trunc({0}, {1})"),
    Function("year", "CAST(year({0}) AS BIGINT)"),
    Function("quarter", "CAST(quarter({0}) AS BIGINT)"),
    Function("month", "CAST(month({0}) AS BIGINT)"),
    Function("week", "CAST(weekofyear({0}) AS BIGINT)"),
    Function("day", "CAST(day({0}) AS BIGINT)"),
    Function("dayofweek", "CAST(dayofweek({0}) AS BIGINT)"),
    Function("dayofyear", "CAST(dayofyear({0}) AS BIGINT)"),
    Function("hour", "CAST(hour({0}) AS BIGINT)"),
    Function("minute", "CAST(minute({0}) AS BIGINT)"),
    Function("second", "CAST(second({0}) AS BIGINT)"),
    Function("unix_micros", "unix_micros({0})"),
    Function("unix_seconds", "unix_seconds({0})"),
    Function("timestamp_seconds", "", _ALWAYS),
    Function("array", "array({*})"),
)

_SAFE_CASTS: dict[Kind, frozenset[Kind]] = {
    Kind.NULL: _ALWAYS,
    Kind.BOOLEAN: frozenset((Kind.BOOLEAN, Kind.BIGINT, Kind.DOUBLE, Kind.STRING)),
    Kind.BIGINT: frozenset((Kind.BOOLEAN, Kind.BIGINT, Kind.DOUBLE, Kind.STRING)),
    Kind.DECIMAL: frozenset((Kind.BOOLEAN, Kind.DOUBLE, Kind.STRING)),
    Kind.DOUBLE: frozenset((Kind.BOOLEAN, Kind.DOUBLE, Kind.STRING)),
    Kind.STRING: frozenset((Kind.STRING,)),
    Kind.TIMESTAMP: frozenset((Kind.BIGINT, Kind.DOUBLE, Kind.STRING, Kind.TIMESTAMP)),
}


def cast_can_fail(source: Type, target: Type) -> bool:
    """Whether some value of `source` has no value in `target`."""
    if target.kind in _SAFE_CASTS.get(source.kind, _NEVER):
        return False
    if target.kind is Kind.DECIMAL and source.kind in (Kind.BIGINT, Kind.DECIMAL):
        integral = 19 if source.kind is Kind.BIGINT else source.precision - source.scale
        return integral > target.precision - target.scale or (
            source.scale > target.scale and integral == target.precision - target.scale
        )
    return True


def call_can_fail(call: Call) -> bool:
    """Whether this call itself can fail for a row; its arguments are not looked at."""
    if call.function == "cast":
        return cast_can_fail(call.arguments[0].type, call.type)
    kind = call.arguments[0].type.kind if call.arguments else Kind.NULL
    return kind in FUNCTIONS[call.function].fails_on


_SLOW_CASTS = frozenset(((Kind.DOUBLE, Kind.DECIMAL),))


def is_slow(call: Call) -> bool:
    """Whether a call leaves the kernels: it runs in Python, once per distinct value of a block."""
    if call.function in ("cast", "try_cast"):
        return (call.arguments[0].type.kind, call.type.kind) in _SLOW_CASTS
    return FUNCTIONS[call.function].slow or (call.function == "round" and call.type.kind is Kind.DOUBLE)


def can_fail(expression: Expr) -> bool:
    """Whether evaluating `expression` can fail for a row, anywhere inside."""
    if not isinstance(expression, Call):
        return False
    return call_can_fail(expression) or any(can_fail(argument) for argument in expression.arguments)


class SqlFunction(msgspec.Struct, frozen=True):
    """A function of the language.

    `names` are what a query may write (lower case), the first is the preferred one; `usage` is shown in
    errors. `rule` names the typing rule of job/sql/rules.py; `plan` is the function of FUNCTIONS it compiles
    to, "" where the rule chooses. Rule "fixed" takes `parameters` by kind: the last `optional` may be left
    out, and `result` is the type.
    """

    names: tuple[str, ...]
    usage: str
    rule: str
    plan: str = ""
    parameters: tuple[Type, ...] = ()
    optional: int = 0
    result: Type = STRING


def _time_part(name: str, *synonyms: str) -> SqlFunction:
    return SqlFunction((name, *synonyms), f"{name}(time)", "fixed", name, (TIMESTAMP,), 0, BIGINT)


def _text(
    names: tuple[str, ...], usage: str, plan: str, parameters: int, result: Type = STRING
) -> SqlFunction:
    return SqlFunction(names, usage, "fixed", plan, (STRING,) * parameters, 0, result)


_OPERATORS = (
    SqlFunction(("and",), "a AND b", "logic", "and"),
    SqlFunction(("or",), "a OR b", "logic", "or"),
    SqlFunction(("not", "!"), "NOT a", "logic", "not"),
    SqlFunction(("=", "=="), "a = b", "comparison", "eq"),
    SqlFunction(("<>", "!="), "a <> b", "comparison", "ne"),
    SqlFunction(("<",), "a < b", "comparison", "lt"),
    SqlFunction(("<=",), "a <= b", "comparison", "le"),
    SqlFunction((">",), "a > b", "comparison", "gt"),
    SqlFunction((">=",), "a >= b", "comparison", "ge"),
    SqlFunction(("<=>", "equal_null"), "a <=> b", "comparison", "eq_null_safe"),
    SqlFunction(("between",), "x BETWEEN low AND high", "between"),
    SqlFunction(("in",), "x IN (a, b)", "in", "in"),
    SqlFunction(("is null", "isnull"), "x IS NULL", "null_test", "is_null"),
    SqlFunction(("isnotnull",), "x IS NOT NULL", "null_test", "is_not_null"),
    SqlFunction(("is true",), "x IS TRUE", "truth_test"),
    SqlFunction(("is false",), "x IS FALSE", "truth_test"),
    SqlFunction(("+", "try_add"), "a + b", "arithmetic", "add"),
    SqlFunction(("-", "try_subtract"), "a - b", "arithmetic", "sub"),
    SqlFunction(("*", "try_multiply"), "a * b", "arithmetic", "mul"),
    SqlFunction(("/", "try_divide"), "a / b", "arithmetic", "div"),
    SqlFunction(("div",), "a DIV b", "arithmetic", "int_div"),
    SqlFunction(("%", "mod", "try_mod"), "a % b", "arithmetic", "mod"),
    SqlFunction(("negative",), "-x", "sign", "neg"),
    SqlFunction(("abs",), "abs(x)", "sign", "abs"),
    SqlFunction(("cast",), "CAST(x AS type)", "cast", "cast"),
    SqlFunction(("try_cast",), "try_cast(x AS type)", "cast", "try_cast"),
    SqlFunction(("like",), "text LIKE 'pattern'", "like", "like"),
    SqlFunction(("array",), "approx_percentile(x, array(0.5, 0.99))", "array", "array"),
)

_CONDITIONALS = (
    SqlFunction(("case",), "CASE WHEN condition THEN value ... END", "case", "case"),
    SqlFunction(("if", "iff"), "if(condition, value, value)", "if", "case"),
    SqlFunction(("coalesce", "ifnull", "nvl"), "coalesce(a, b, ...)", "coalesce", "coalesce"),
    SqlFunction(("nvl2",), "nvl2(x, if not null, if null)", "nvl2", "case"),
    SqlFunction(("nullif",), "nullif(a, b)", "nullif", "nullif"),
    SqlFunction(("greatest",), "greatest(a, b, ...)", "extreme", "greatest"),
    SqlFunction(("least",), "least(a, b, ...)", "extreme", "least"),
)

_NUMBERS = (
    SqlFunction(("floor",), "floor(x)", "whole", "floor"),
    SqlFunction(("ceil", "ceiling"), "ceil(x)", "whole", "ceil"),
    SqlFunction(("round",), "round(x[, digits])", "round", "round"),
)

_STRINGS = (
    _text(("lower", "lcase"), "lower(text)", "lower", 1),
    _text(("upper", "ucase"), "upper(text)", "upper", 1),
    SqlFunction(("trim", "btrim"), "trim(text[, characters])", "trim", "trim"),
    SqlFunction(("ltrim",), "ltrim([characters, ]text)", "trim_side", "ltrim"),
    SqlFunction(("rtrim",), "rtrim([characters, ]text)", "trim_side", "rtrim"),
    SqlFunction(("trim leading",), "trim(LEADING characters FROM text)", "trim", "ltrim"),
    SqlFunction(("trim trailing",), "trim(TRAILING characters FROM text)", "trim", "rtrim"),
    _text(("length", "char_length", "character_length", "len"), "length(text)", "length", 1, BIGINT),
    SqlFunction(("substr", "substring"), "substr(text, position[, length])", "substr", "substr"),
    SqlFunction(("left",), "left(text, length)", "left", "substr"),
    SqlFunction(
        ("split_part",),
        "split_part(text, delimiter, number)",
        "fixed",
        "split_part",
        (STRING, STRING, BIGINT),
    ),
    SqlFunction(("concat", "||"), "concat(a, b, ...)", "concat", "concat"),
    SqlFunction(
        ("replace",),
        "replace(text, search[, replacement])",
        "replace",
        "replace",
        (STRING, STRING, STRING),
        1,
    ),
    _text(("startswith",), "startswith(text, prefix)", "starts_with", 2, BOOLEAN),
    _text(("endswith",), "endswith(text, suffix)", "ends_with", 2, BOOLEAN),
    _text(("contains",), "contains(text, search)", "contains", 2, BOOLEAN),
    SqlFunction(("rlike", "regexp", "regexp_like"), "text RLIKE 'pattern'", "rlike", "rlike"),
    SqlFunction(
        ("regexp_extract",), "regexp_extract(text, 'pattern'[, group])", "regexp_extract", "regexp_extract"
    ),
    SqlFunction(("parse_url", "try_parse_url"), "parse_url(url, 'HOST'[, key])", "parse_url", "parse_url"),
    _text(("url_decode", "try_url_decode"), "url_decode(text)", "url_decode", 1),
)

_TIMES = (
    SqlFunction(("date_trunc",), "date_trunc('unit', time)", "date_trunc", "date_trunc"),
    SqlFunction(("extract",), "extract(unit FROM time)", "extract"),
    SqlFunction(("date_part", "datepart"), "date_part('unit', time)", "extract"),
    _time_part("year"),
    _time_part("quarter"),
    _time_part("month"),
    _time_part("week", "weekofyear"),
    _time_part("day", "dayofmonth"),
    _time_part("dayofweek"),
    _time_part("dayofyear"),
    _time_part("hour"),
    _time_part("minute"),
    _time_part("second"),
    _time_part("unix_micros"),
    _time_part("unix_seconds"),
    SqlFunction(
        ("timestamp_seconds",), "timestamp_seconds(seconds)", "timestamp_seconds", "timestamp_seconds"
    ),
    SqlFunction(("to_timestamp", "try_to_timestamp"), "to_timestamp(text)", "to_timestamp", "cast"),
)

SQL_FUNCTIONS: dict[str, SqlFunction] = {
    name: function
    for function in (*_OPERATORS, *_CONDITIONALS, *_NUMBERS, *_STRINGS, *_TIMES)
    for name in function.names
}
"""What a query may call beside aggregates, by lower-case name; operators by their sign."""


class SqlAggregate(msgspec.Struct, frozen=True):
    """An aggregate of the language: the names a query may write, how it is used, and the plan's aggregate."""

    names: tuple[str, ...]
    usage: str
    plan: str


AGGREGATES: dict[str, SqlAggregate] = {
    name: aggregate
    for aggregate in (
        SqlAggregate(("count",), "count(*), count(x) or count(DISTINCT x, ...)", "count"),
        SqlAggregate(("count_if",), "count_if(condition)", "count_if"),
        SqlAggregate(("sum", "try_sum"), "sum(x)", "sum"),
        SqlAggregate(("avg", "mean", "try_avg"), "avg(x)", "avg"),
        SqlAggregate(("min",), "min(x)", "min"),
        SqlAggregate(("max",), "max(x)", "max"),
        SqlAggregate(("approx_count_distinct",), "approx_count_distinct(x)", "approx_count_distinct"),
        SqlAggregate(("hll_sketch_agg",), "hll_sketch_agg(x)", "hll_sketch_agg"),
        SqlAggregate(
            ("approx_percentile", "percentile_approx"),
            "approx_percentile(x, p) or (x, array(p, ...))",
            "approx_percentile",
        ),
    )
    for name in aggregate.names
}
"""What a query may aggregate with, by lower-case name."""

REFUSED: dict[str, str] = {
    "any_value": "Its result would depend on the order of lines; write min(x) or max(x).",
    "first": "Its result would depend on the order of lines; write min(x) or max(x).",
    "last": "Its result would depend on the order of lines; write min(x) or max(x).",
    "first_value": "Its result would depend on the order of lines; write min(x) or max(x).",
    "last_value": "Its result would depend on the order of lines; write min(x) or max(x).",
    "collect_list": "A group keeps numbers, not lists; add the column to GROUP BY.",
    "collect_set": "A group keeps numbers, not lists; write count(DISTINCT x) or add the column to GROUP BY.",
    "median": "Write approx_percentile(x, 0.5).",
    "percentile": "Write approx_percentile(x, p).",
    "percentile_cont": "Write approx_percentile(x, p).",
    "percentile_disc": "Write approx_percentile(x, p).",
    "date": "There is no DATE type; write date_trunc('DAY', time).",
    "to_date": "There is no DATE type; write date_trunc('DAY', time).",
    "trunc": "There is no DATE type; write date_trunc('MONTH', time).",
    "now": "A result depends on the log alone; give the time as a parameter, :now.",
    "current_timestamp": "A result depends on the log alone; give the time as a parameter, :now.",
    "current_date": "A result depends on the log alone; give the time as a parameter, :now.",
    "rand": "A result depends on the log alone.",
    "random": "A result depends on the log alone.",
    "uuid": "A result depends on the log alone.",
    "date_format": "Write date_trunc('HOUR', time), or CAST(time AS STRING) with substr.",
    "session_window": "Windows are fixed: window(time, '10 minutes').",
    "ilike": "Write lower(x) LIKE 'pattern'.",
    "split": "There are no arrays; write split_part(text, delimiter, number).",
    "locate": "Write contains(text, search) or split_part(text, delimiter, number).",
    "instr": "Write contains(text, search) or split_part(text, delimiter, number).",
    "substring_index": "Write split_part(text, delimiter, number), part by part.",
    "regexp_replace": "Write regexp_extract(text, pattern, group) for the part to keep, or replace(text, a, b).",
    "regexp_substr": "Write regexp_extract(text, pattern, 0).",
    "from_unixtime": "Write timestamp_seconds(n).",
    "unix_timestamp": "Write unix_seconds(t).",
    "get_json_object": "With the json format, name the key: user.id.",
    "grouping": "Run one query per grouping.",
    "bround": "Write round(x, digits), which rounds half up.",
    "string": "Write CAST(x AS STRING).",
    "int": "Write CAST(x AS BIGINT).",
    "bigint": "Write CAST(x AS BIGINT).",
    "double": "Write CAST(x AS DOUBLE).",
    "timestamp": "Write CAST(x AS TIMESTAMP).",
    "decimal": "Write CAST(x AS DECIMAL(p, s)).",
    "boolean": "Write CAST(x AS BOOLEAN).",
}
"""Functions of Spark that the language lacks for a reason, and what to write instead."""
