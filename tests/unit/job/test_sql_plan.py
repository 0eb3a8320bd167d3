"""Clauses to plans: keys, windows, aggregates, the result phase, subqueries and parameters."""

from __future__ import annotations

import datetime
from decimal import Decimal

import msgspec
import pytest

from job.errors import ParameterError, SqlError
from job.explain import text
from job.plan import WINDOW_START, Aggregate, Call, ColumnRef, Field, Literal, Order, Plan, Schema, Window
from job.sql import compile_sql
from job.types import ARRAY, BIGINT, BOOLEAN, DOUBLE, SECONDS, STRING, TIMESTAMP, WINDOW, Type, decimal

SCHEMA = Schema({"path": STRING, "time": TIMESTAMP, "status": BIGINT, "bytes": BIGINT, "took": SECONDS})
MINUTE = 60_000_000


def compiled(sql: str, **parameters: object) -> Plan:
    return compile_sql(sql, {"access": SCHEMA}, parameters)


def refused(sql: str) -> SqlError:
    with pytest.raises(SqlError) as caught:
        compiled(sql)
    return caught.value


def keys(plan: Plan) -> list[str]:
    return [text(key) for key in plan.keys]


def outputs(plan: Plan) -> list[str]:
    return [text(output.expr) for output in plan.outputs]


def order(plan: Plan) -> list[str]:
    return [text(term.expr) + (" desc" if term.descending else "") for term in plan.order]


def test_the_whole_shape_of_a_plan() -> None:
    sql = "SELECT path, sum(bytes) AS b FROM access WHERE status = 200 GROUP BY path ORDER BY b DESC LIMIT 3"
    status, path, size = ColumnRef("status", BIGINT), ColumnRef("path", STRING), ColumnRef("bytes", BIGINT)
    plan = compiled(sql)
    assert plan.fields == (Field("status", BIGINT), Field("path", STRING), Field("bytes", BIGINT))
    assert plan.where == Call("eq", (status, Literal(200, BIGINT)), BOOLEAN)
    assert plan.keys == (path,)
    assert plan.aggregates == (Aggregate("sum", (size,), BIGINT),)
    assert [(one.name, one.expr) for one in plan.outputs] == [
        ("path", ColumnRef("key0", STRING)),
        ("b", ColumnRef("agg0", BIGINT)),
    ]
    assert plan.order == (Order(ColumnRef("agg0", BIGINT), True, False),)
    assert (plan.limit, plan.window, plan.having, plan.inner, plan.sql) == (3, None, None, None, sql)


def test_equal_text_gives_equal_plans_that_travel() -> None:
    sql = "SELECT window(time, '1 minute') w, max(took) FROM access WHERE took > 1.5 GROUP BY w"
    plan = compiled(sql)
    assert plan == compiled(sql)
    assert hash(plan) == hash(compiled(sql))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(plan), type=Plan) == plan


@pytest.mark.parametrize(
    "group", ["lower(path), status", "1, 2", "p, 2", "P, status", "ALL", "2, 1, lower(path)"]
)
def test_the_ways_to_say_group_by(group: str) -> None:
    plan = compiled(f"SELECT lower(path) AS p, status, count(*) FROM access GROUP BY {group}")
    assert sorted(keys(plan)) == ["lower(path)", "status"]
    assert {text(plan.keys[int(name[3:])]) for name in outputs(plan)[:2]} == {"lower(path)", "status"}


def test_a_field_wins_over_an_alias_in_group_by_and_loses_in_having() -> None:
    sql = "SELECT upper(path) AS path, count(*) FROM access GROUP BY path HAVING path > 'A' ORDER BY path"
    plan = compiled(sql)
    assert keys(plan) == ["path"]
    assert outputs(plan)[0] == "upper(key0)"
    assert plan.having is not None
    assert text(plan.having) == "(upper(key0) > 'A')"
    assert order(plan) == ["upper(key0)"]


def test_select_may_compute_with_keys_and_aggregates() -> None:
    plan = compiled("SELECT status DIV 100 + 1, sum(bytes) / count(*), 5 FROM access GROUP BY status DIV 100")
    assert outputs(plan) == ["(key0 + 1)", "(cast(agg0 as DOUBLE) / cast(agg1 as DOUBLE))", "5"]


def test_distinct_groups_by_what_is_shown() -> None:
    plan = compiled("SELECT DISTINCT path, status FROM access ORDER BY status")
    assert (keys(plan), plan.aggregates, order(plan)) == (["path", "status"], (), ["key1"])
    assert compiled("SELECT DISTINCT path, count(*) FROM access GROUP BY path").keys == plan.keys[:1]
    assert "not all shown" in refused("SELECT DISTINCT count(*) FROM access GROUP BY path").message
    assert (
        "names columns of SELECT"
        in refused("SELECT DISTINCT path, max(status) FROM access GROUP BY path ORDER BY max(bytes)").message
    )


def test_equal_aggregates_are_computed_once() -> None:
    plan = compiled(
        "SELECT count(*), count(1), COUNT( * ), sum(bytes) FROM access HAVING sum(bytes) > 0 ORDER BY max(took)"
    )
    assert [one.function for one in plan.aggregates] == ["count", "sum", "max"]


@pytest.mark.parametrize(
    ("sql", "function", "arguments", "kind"),
    [
        ("count(*)", "count", 0, BIGINT),
        ("count(path)", "count", 1, BIGINT),
        ("count(path, status)", "count", 2, BIGINT),
        ("count(DISTINCT path, status)", "count_distinct", 2, BIGINT),
        ("count_if(status > 1)", "count", 0, BIGINT),
        ("sum(bytes)", "sum", 1, BIGINT),
        ("sum(took)", "sum", 1, decimal(28, 6)),
        ("sum(1.5D * bytes)", "sum", 1, DOUBLE),
        ("avg(bytes)", "avg", 1, DOUBLE),
        ("mean(took)", "avg", 1, decimal(22, 10)),
        ("min(path)", "min", 1, STRING),
        ("max(time)", "max", 1, TIMESTAMP),
        ("approx_count_distinct(path)", "approx_count_distinct", 1, BIGINT),
        ("approx_percentile(bytes, 0.5)", "approx_percentile", 1, DOUBLE),
        ("hll_sketch_agg(DISTINCT bytes)", "hll_sketch_agg", 1, STRING),
        ("hll_sketch_agg(NULL)", "hll_sketch_agg", 1, STRING),
    ],
)
def test_aggregates(sql: str, function: str, arguments: int, kind: Type) -> None:
    (aggregate,) = compiled(f"SELECT {sql} FROM access").aggregates
    assert (aggregate.function, len(aggregate.arguments), aggregate.type) == (function, arguments, kind)


def test_filters_and_count_if_are_conditions_of_the_aggregate() -> None:
    plan = compiled(
        "SELECT count_if(status > 1) FILTER (WHERE path = 'a'), sum(bytes) FILTER (WHERE status = 2) FROM access"
    )
    filters = [text(one.filter) for one in plan.aggregates if one.filter is not None]
    assert filters == ["((path = 'a') AND (status > 1))", "(status = 2)"]


def test_several_percentiles_are_an_array_of_aggregates() -> None:
    plan = compiled("SELECT approx_percentile(took, array(0.5, 0.99)) FROM access")
    assert [one.parameter for one in plan.aggregates] == [0.5, 0.99]
    assert plan.outputs[0].expr == Call(
        "array", (ColumnRef("agg0", DOUBLE), ColumnRef("agg1", DOUBLE)), ARRAY
    )


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("sum(path)", "takes a number, not a STRING"),
        ("sum(DISTINCT bytes)", "sum(DISTINCT ...) is not supported"),
        ("sum()", "takes one argument"),
        ("count()", "count takes * or expressions"),
        ("count(DISTINCT *)", "count takes * or expressions"),
        ("max(count(*))", "cannot stand in an aggregate"),
        ("count_if(status)", "takes a condition, not a BIGINT"),
        ("count(*) FILTER (WHERE status)", "FILTER (WHERE ...) takes a condition"),
        ("approx_percentile(bytes, 0.5, 100)", "takes no accuracy"),
        ("approx_percentile(bytes, 1.5)", "not between 0 and 1"),
        ("approx_percentile(bytes, status)", "constant number"),
        ("approx_percentile(path, 0.5)", "takes a number, not a STRING"),
        ("1 + approx_percentile(bytes, array(0.5))", "cannot mix"),
        ("max(window(time, '1 minute'))", "window(...) cannot stand in an aggregate"),
        ("hll_sketch_agg(took)", "hll_sketch_agg takes a STRING or a BIGINT, not a DECIMAL"),
        ("hll_sketch_agg(path, 12)", "hll_sketch_agg takes one argument"),
    ],
)
def test_wrong_aggregates(sql: str, message: str) -> None:
    assert message in refused(f"SELECT {sql} FROM access").message


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("WHERE count(*) > 1", "cannot stand in WHERE"),
        ("GROUP BY count(*)", "cannot stand in GROUP BY"),
        ("GROUP BY 2", "GROUP BY 2: SELECT has 1 column"),
        ("GROUP BY n", "names a column that is an aggregate"),
        ("HAVING status > 1", "neither in GROUP BY nor inside an aggregate"),
        ("HAVING count(*)", "HAVING takes a condition"),
        ("ORDER BY 5", "ORDER BY 5: SELECT has 1 column"),
        ("ORDER BY path", "neither in GROUP BY nor inside an aggregate"),
        ("LIMIT -1", "LIMIT is 0 to"),
        ("LIMIT status", "LIMIT takes a whole number"),
    ],
)
def test_wrong_clauses(clause: str, message: str) -> None:
    assert message in refused(f"SELECT count(*) AS n FROM access {clause}").message


def test_duplicate_names_are_refused() -> None:
    assert (
        "two columns are named PATH"
        in refused("SELECT path, count(*) AS PATH FROM access GROUP BY 1").message
    )


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT window(time, '1 minute') AS w, count(*) FROM access GROUP BY w",
        "SELECT window(time, '60 seconds') AS w, count(*) FROM access GROUP BY 1",
        "SELECT window AS w, count(*) FROM access GROUP BY window(time, INTERVAL 1 MINUTE)",
        "SELECT window(time, INTERVAL '1' MINUTE) AS w, count(*) FROM access GROUP BY window(time, '1 MINUTES')",
        "SELECT window(time, '30 seconds 30000 milliseconds') AS w, count(*) FROM access GROUP BY ALL",
        "SELECT window(time, '1 minute', '1 minute') AS w, count(*) FROM access GROUP BY window",
    ],
)
def test_the_ways_to_say_window(sql: str) -> None:
    plan = compiled(sql)
    assert plan.window == Window(ColumnRef("time", TIMESTAMP), MINUTE, MINUTE)
    assert plan.outputs[0].expr == ColumnRef("window", WINDOW)
    assert plan.keys == ()


def test_parts_of_the_window() -> None:
    plan = compiled(
        "SELECT w.start AS a, hour(w.end) AS b, count(*) AS n, window(time, '1 hour') AS w FROM access"
        " GROUP BY w HAVING w.start > TIMESTAMP '2024-01-01' ORDER BY w, n DESC, w.start LIMIT 1"
    )
    assert plan.outputs[0].expr == ColumnRef(WINDOW_START, TIMESTAMP)
    assert outputs(plan)[1] == "hour(window_end)"
    assert order(plan) == ["agg0 desc"]


def test_parts_of_a_window_call() -> None:
    sql = "SELECT window(time, '1 hour').start AS s, count(*) FROM access GROUP BY window(time, '1 hour').end"
    plan = compiled(sql)
    assert plan.outputs[0].expr == ColumnRef(WINDOW_START, TIMESTAMP)
    assert plan.window == Window(ColumnRef("time", TIMESTAMP), 60 * MINUTE, 60 * MINUTE)


def test_sliding_windows() -> None:
    plan = compiled(
        "SELECT window.end, count(*) FROM access GROUP BY window(time, '5 minutes', '90 seconds')"
    )
    assert plan.window == Window(ColumnRef("time", TIMESTAMP), 5 * MINUTE, 3 * MINUTE // 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("window(time)", "takes a time, a size and perhaps a slide"),
        ("window(time, '1 minute', '1 minute', '5 seconds')", "takes a time, a size and perhaps a slide"),
        ("window(status, '1 minute')", "is a TIMESTAMP field, not a BIGINT"),
        ("window(time, '1 month')", "months and years differ in length"),
        ("window(time, '1 fortnight')", "is no unit of time"),
        ("window(time, 'soon')", "an interval is written"),
        ("window(time, '0 seconds')", "at least a microsecond"),
        ("window(time, '1 minute', '2 minutes')", "at most its size"),
        ("window(time, '1 hour', '7 milliseconds')", "the limit is 10000"),
    ],
)
def test_wrong_windows(call: str, message: str) -> None:
    assert message in refused(f"SELECT {call} AS w, count(*) FROM access GROUP BY w").message


def test_one_window_grouped_and_in_order_of_time() -> None:
    two = "SELECT window(time, '1 minute'), window(time, '2 minutes') x, count(*) FROM access GROUP BY ALL"
    assert "a query has one window" in refused(two).message
    assert "not in GROUP BY" in refused("SELECT window(time, '1 minute'), count(*) FROM access").message
    late = "SELECT window(time, '1 minute') w, count(*) FROM access GROUP BY w ORDER BY w.start DESC"
    assert "in the order of time" in refused(late).message
    where = "SELECT count(*) FROM access WHERE window(time, '1 minute').start > time"
    assert refused(where).message


def test_a_subquery_is_a_plan_inside() -> None:
    plan = compiled(
        "SELECT t.n, count(*), max(w.start) FROM (SELECT window(time, '1 hour') w, path, count(*) AS n FROM access"
        " GROUP BY ALL LIMIT 5) AS t WHERE t.path <> '/' GROUP BY n"
    )
    assert plan.inner is not None
    assert (plan.inner.limit, plan.inner.source, plan.source) == (5, "access", "access")
    assert plan.fields == (Field("path", STRING), Field("n", BIGINT), Field("w.start", TIMESTAMP))
    assert keys(plan) == ["n"]


def test_a_subquery_hides_the_fields_of_the_log() -> None:
    sql = "SELECT max(status) FROM (SELECT path, count(*) AS n FROM access GROUP BY path)"
    assert "there is no column status" in refused(sql).message
    whole = "SELECT max(w) FROM (SELECT window(time, '1 hour') w, count(*) c FROM access GROUP BY w)"
    assert "w.start" in refused(whole).advice


def test_unnamed_columns_of_a_subquery_are_called_by_their_text() -> None:
    plan = compiled("SELECT max(`count(*)`) FROM (SELECT path, count(*) FROM access GROUP BY path)")
    assert plan.fields == (Field("count(*)", BIGINT),)


@pytest.mark.parametrize(
    ("value", "kind", "bound"),
    [
        (5, BIGINT, 5),
        (True, BOOLEAN, True),
        (1.5, DOUBLE, 1.5),
        (Decimal("1.50"), decimal(3, 2), "1.50"),
        ("x", STRING, "x"),
        (datetime.datetime(1970, 1, 1, 0, 0, 1), TIMESTAMP, 1_000_000),
        (
            datetime.datetime(1970, 1, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
            TIMESTAMP,
            0,
        ),
    ],
)
def test_parameters_are_typed_literals_that_know_their_name(value: object, kind: Type, bound: object) -> None:
    plan = compiled("SELECT DISTINCT :Given AS x FROM access", given=value)
    assert plan.keys == (Literal(bound, kind, "Given"),)  # type: ignore[arg-type]


def test_parameters_stand_for_limits_patterns_and_windows() -> None:
    plan = compiled(
        "SELECT window(time, :size) w, count_if(path LIKE :pattern) FROM access GROUP BY w LIMIT :n",
        size="1 minute", pattern="/%", n=3,
    )  # fmt: skip
    assert (plan.limit, plan.window and plan.window.size_us) == (3, MINUTE)


def test_missing_unknown_and_unusable_parameters() -> None:
    with pytest.raises(ParameterError, match="no such parameter was given"):
        compiled("SELECT count(*) FROM access WHERE status = :s")
    with pytest.raises(ParameterError, match=r"no parameter :stat. Did you mean s"):
        compiled("SELECT count(*) FROM access WHERE status = :sta", sta=1, stat=2)
    with pytest.raises(ParameterError, match="a list is no SQL value"):
        compiled("SELECT count(*) FROM access WHERE status = :s", s=[1])
    with pytest.raises(ParameterError, match="digits"):
        compiled("SELECT count(*) FROM access WHERE status = :s", s=10**40)


def test_only_the_fields_used_are_read() -> None:
    assert compiled("SELECT count(*) FROM access").fields == ()
    plan = compiled(
        "SELECT window(time, '1 hour') w, sum(bytes) FILTER (WHERE status > 1) FROM access GROUP BY w"
    )
    assert [field.name for field in plan.fields] == ["time", "bytes", "status"]
