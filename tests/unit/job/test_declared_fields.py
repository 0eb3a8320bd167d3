"""Fields that operators declare for JSON logs."""

from __future__ import annotations

import pytest

from job import formats
from job.errors import FormatError
from job.plan import Schema
from job.sql import compile_sql

DECLARED = {
    "latency": "DOUBLE", "ctx.user": "BIGINT", "ok": "boolean", "seen": "TIMESTAMP", "paid": "decimal( 18, 6)",
    "note": "STRING",
}  # fmt: skip


def values(line: bytes) -> dict[str, object]:
    explanation = formats.explain(formats.with_fields(formats.find("json"), DECLARED), line)
    assert explanation.ok
    return {name: value for step in explanation.steps for name, value in step.values.items()}


def test_declared_keys_have_their_types() -> None:
    found = values(b'{"latency":1.5,"ctx":{"user":7},"ok":true,"seen":"2024-01-01T00:00:00Z","paid":0.25,"note":"a"}')
    assert found == {
        "latency": 1.5, "ctx.user": 7, "ok": True, "seen": 1704067200000000, "paid": pytest.approx(0.25), "note": "a",
    }  # fmt: skip


def test_a_dotted_key_may_stand_flat_in_the_document() -> None:
    assert values(b'{"ctx.user":9}') == {"ctx.user": 9}


def test_what_does_not_fit_is_null_and_no_reject() -> None:
    assert values(b'{"latency":"slow","ctx":{"user":"x"},"ok":3,"seen":"never","paid":{}}') == {}


def test_the_schema_has_them_beside_the_others() -> None:
    format = formats.with_fields(formats.find("json"), DECLARED)
    assert str(format.fields["paid"]) == "DECIMAL(18,6)"
    assert str(format.fields["status"]) == "BIGINT"
    assert format.open_fields


@pytest.mark.parametrize(
    ("name", "declared", "said"),
    [
        ("combined", {"a": "STRING"}, "the format combined has no other fields than its own"),
        ("json", {"STATUS": "STRING"}, "'STATUS' is a field of the format json already, of type BIGINT"),
        ("json", {"a": "STRING", "A": "BIGINT"}, "'A' is a field of the format json already, of type STRING"),
        ("json", {"a": "TEXT"}, "'TEXT' is no type of a declared field; write STRING, BIGINT"),
        ("json", {"a" * 2000: "STRING"}, "the declared fields cannot be read: a literal of 2000 bytes is longer than 1024"),
        ("json", {f"f{n}": "STRING" for n in range(1001)}, "there are 1001 declared fields, more than 1000"),
    ],
)
def test_refusals(name: str, declared: dict[str, str], said: str) -> None:
    with pytest.raises(FormatError, match=said.replace("(", r"\(")):
        formats.with_fields(formats.find(name), declared)


def test_queries_take_them_without_a_cast() -> None:
    format = formats.with_fields(formats.find("json"), DECLARED)
    schema = Schema(dict(format.fields), format.open_fields, format.aliases)
    sql = "SELECT sum(latency) AS a, max(ctx.user) AS b, max(other.key) AS c FROM access WHERE ok"
    plan = compile_sql(sql, {"access": schema})
    assert [str(output.expr.type) for output in plan.outputs] == ["DOUBLE", "BIGINT", "STRING"]
