"""Backfills over HTTP: what to compute, windows that were computed elsewhere, and jobs that have no others."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

import elfstream as elf
from elfstream.backfilled import REQUEST_WINDOWS
from elfstream.client import connect_async
from elfstream.remote_results import window_result
from job.plan import Plan
from master.api_options import ApiOptions
from master.job_documents import time_text
from master.requests import IngestWindows
from tests.memory_fleet import EPOCH_US, SECOND_US, SQL, Answer, Client, with_fleet

LINES = {"Content-Type": "application/x-ndjson"}
TYPES = {"w": "STRUCT<start: TIMESTAMP, end: TIMESTAMP>", "path": "STRING", "hits": "BIGINT"}
COLUMNS = [{"name": name, "type": type} for name, type in TYPES.items()]
DERIVED = {"columns": [{"name": "n", "type": "BIGINT"}], "size": "10s", "text": "a join"}
URL = "/v1/jobs/hot/backfill/windows"


def edges(number: int) -> dict[str, Any]:
    start = EPOCH_US - number * 10 * SECOND_US
    return {"start": time_text(start), "end": time_text(start + 10 * SECOND_US)}


def window(number: int, *hits: int, **other: Any) -> dict[str, Any]:
    """So many windows before the boundary."""
    rows = [[edges(number), "/", one] for one in hits]
    return {
        "window": edges(number),
        "revision": 1,
        "columns": COLUMNS,
        "rows": rows,
        "lines": sum(hits),
        **other,
    }


async def put(client: Client, *windows: Any, url: str = URL, number: int = 0) -> Answer:
    body = b"\n".join(one if isinstance(one, bytes) else msgspec.json.encode(one) for one in windows)
    return await client("PUT", url, number, data=body, headers=LINES)


def test_a_job_that_is_stopped_has_no_backfill() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        assert (await client("POST", "/v1/jobs/hot/stop", json={})).status < 300
        refused = await client("POST", "/v1/jobs/hot/backfill")
        assert (refused.status, refused.kind, refused.json["field"]) == (400, "invalid", "name")
        assert refused.json["detail"] == "the job is stopped: it takes nothing any more"

    with_fleet(main)


def test_the_scope_of_a_backfill_is_told_and_not_kept() -> None:
    async def main(client: Client) -> None:
        await client.submit(number=1)
        for number in range(3):
            told = await client("POST", "/v1/jobs/hot/backfill", number)
            assert told.status == 200
        scope = told.json
        assert (scope["from"], scope["to"], scope["boundary"]) == (
            None,
            time_text(EPOCH_US),
            time_text(EPOCH_US),
        )
        assert (scope["revision"], scope["sql"], scope["columns"]) == (1, SQL, COLUMNS)
        assert (scope["size_us"], scope["slide_us"]) == (10 * SECOND_US, 10 * SECOND_US)
        assert [source["name"] for source in scope["sources"]] == ["access"]
        plan = msgspec.msgpack.decode(base64.b64decode(scope["plan"]), type=Plan)
        assert plan.source == "access"
        asked = {"from": time_text(EPOCH_US - 95 * SECOND_US), "to": time_text(EPOCH_US - 15 * SECOND_US)}
        part = (await client("POST", "/v1/jobs/hot/backfill", json=asked)).json
        assert (part["from"], part["to"]) == (edges(10)["start"], edges(1)["start"])
        beyond = (await client("POST", "/v1/jobs/hot/backfill", json={"to": "2999-01-01T00:00:00Z"})).json
        assert beyond["to"] == time_text(EPOCH_US)

    with_fleet(main, 3)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"from": "2999-01-01"}, "from"),
        ({"from": "2025-01-02", "to": "2025-01-01"}, "to"),
        ({"from": 3}, "from"),
        ({"to": "x"}, "to"),
        ({"revision": 2}, "revision"),
        ({"revision": True}, "revision"),
        ({"until": "x"}, "until"),
    ],
)
def test_a_scope_that_makes_no_sense_names_the_field(body: dict[str, Any], field: str) -> None:
    async def main(client: Client) -> None:
        await client.submit()
        refused = await client("POST", "/v1/jobs/hot/backfill", json=body)
        assert (refused.status, refused.kind, refused.json["field"]) == (400, "invalid", field)

    with_fleet(main)


def test_jobs_that_cannot_be_backfilled_say_why() -> None:
    async def main(client: Client) -> None:
        await client("POST", "/v1/jobs", json={"name": "endless", "sql": "SELECT count(*) AS n FROM access"})
        await client("POST", "/v1/jobs", json={"name": "derived", "derived": DERIVED})
        for name, word in (("endless", "never ends"), ("derived", "no plan")):
            refused = await client("POST", f"/v1/jobs/{name}/backfill")
            assert (refused.status, word in refused.json["detail"]) == (400, True)
        assert (await client("POST", "/v1/jobs/none/backfill")).kind == "unknown"

    with_fleet(main)


def test_windows_are_stored_once_and_replaced_by_others() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        client.fleet.publish("hot", 0, [["/", 1]])
        told = [await put(client, window(1, 5), window(2, 6, 7), number=number) for number in (0, 1, 2)]
        assert [one.json for one in told] == [{"stored": 2, "same": 0, "replaced": 0}] + [
            {"stored": 0, "same": 2, "replaced": 0}
        ] * 2
        assert (await put(client, window(2, 6), window(3))).json == {"stored": 1, "same": 0, "replaced": 1}
        page = (await client("GET", "/v1/jobs/hot/results?to=2999-01-01")).json["results"]
        assert [(one["origin"], one["row_count"], one["revision"]) for one in page] == [
            ("backfill", 0, 1),
            ("backfill", 1, 2),
            ("backfill", 1, 1),
            ("live", 1, 1),
        ]
        assert page[1]["rows"] == [{"w": edges(2), "path": "/", "hits": 6}]
        assert (page[1]["status"], page[1]["lines"], page[1]["plan"]) == ("final", 6, 1)
        assert window_result(page[1]).origin == "backfill"

    with_fleet(main, 3)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (b"{", "body"),
        (b"[]", "body"),
        (b'{"window": null}', "body"),
        (b"[" * 3000, "body"),
        (b'{"\xff": 1}', "body"),
        (window(1, odd=1), "body"),
        (window(1, revision=0), "revision"),
        (window(1, revision=9), "revision"),
        (window(1, lines=-1), "lines"),
        (window(0), "window.start"),
        (window(1, window={"start": "yesterday", "end": "today"}), "window.start"),
        (window(1, window={**edges(1), "end": "2025-02-30T00:00:00Z"}), "window.end"),
        (window(1, window={"start": edges(1)["end"], "end": edges(1)["start"]}), "window.end"),
        (window(1, columns=[]), "columns"),
        (window(1, columns=[{"name": "n", "type": "INT"}]), "columns[0].type"),
        (window(1, columns=COLUMNS[:2]), "columns"),
        (window(1, columns=[COLUMNS[0], COLUMNS[0]]), "columns"),
        (window(1, rows=3), "rows"),
        (window(1, rows=[[None, "/", 1], [None, "/"]]), "rows[1]"),
        (window(1, rows=[[None, "/", 1.5]]), "rows[0][2]"),
        (window(1, rows=[[None, "/", 2**63]]), "rows[0][2]"),
        (window(1, rows=[[{"start": "x", "end": "y"}, "/", 1]]), "rows[0][0].start"),
        (window(1, rows=[[{**edges(1), "end": "2025-02-30T00:00:00Z"}, "/", 1]]), "rows[0][0]"),
        (window(2), "window"),
    ],
)
def test_a_window_that_is_wrong_names_line_and_field_and_nothing_is_taken(wrong: Any, field: str) -> None:
    async def main(client: Client) -> None:
        await client.submit()
        refused = await put(client, window(2, 1), b"", wrong)
        assert (refused.status, refused.kind) == (400, "invalid"), refused.json
        assert (refused.json["line"], refused.json["field"]) == (3, field), refused.json
        assert (await client("GET", "/v1/jobs/hot/results")).json["results"] == []

    with_fleet(main)


def test_bodies_with_windows_are_bounded_in_size_in_number_and_at_a_time() -> None:
    async def main(client: Client) -> None:
        await client.submit(number=1)
        for number in range(2):
            large = await put(client, b" " * 5000, number=number)
            assert (large.status, large.kind, large.json["field"]) == (413, "too-large", "body")
            fitting = await put(client, window(1, 1), b" " * 3000, number=number)
            assert fitting.status == 200, "the limit of other bodies is smaller"
        text = await client("PUT", URL, data=b"{}", headers={"Content-Type": "application/json"})
        assert (text.status, text.kind) == (415, "media-type")
        assert (await put(client)).json["detail"] == "there is no window in the body"

    with_fleet(main, 2, ApiOptions(body_bytes_max=1024, ingest_bytes_max=4096))


def test_too_many_windows_and_too_many_requests_are_told() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        small = [window(number, columns=COLUMNS, rows=[]) for number in range(1, 1002)]
        many = await put(client, *small)
        assert (many.status, many.kind, many.json["line"]) == (413, "too-large", 1001)
        api = client.running.apis[0]
        api._backfill._ingests = 2
        refused = await put(client, window(1))
        assert (refused.status, refused.kind, refused.headers["Retry-After"]) == (429, "too-many", "1")

    with_fleet(main)


def test_a_derived_job_is_a_job_without_query_whose_settings_can_change() -> None:
    async def main(client: Client) -> None:
        body = {"name": "both", "derived": DERIVED, "settings": {"retain": "7d"}}
        made = await client("POST", "/v1/jobs", json=body)
        assert made.status == 201, made.body
        shown = made.json
        assert (shown["derived"], shown["columns"]) == (DERIVED, DERIVED["columns"])
        assert [shown[name] for name in ("sql", "source", "plan", "boundary")] == [None] * 4
        assert shown["keys"] == []
        assert (await client("POST", "/v1/jobs", json=body)).status == 200
        assert (await client("GET", "/v1/jobs")).json["jobs"][0]["source"] is None
        condition = {"If-Match": '"1"'}
        changed = await client(
            "PATCH", "/v1/jobs/both", json={"settings": {"retain": "1d"}}, headers=condition
        )
        assert (changed.status, changed.json["settings"]["retain"], changed.json["revision"]) == (
            200,
            "1d",
            2,
        )
        assert (await client("GET", "/v1/jobs/both/changes")).json["changes"][1]["sql"] is None
        refused = await client("PATCH", "/v1/jobs/both", json={"sql": SQL}, headers={"If-Match": "*"})
        assert (refused.status, refused.json["field"]) == (400, "sql")
        valid = (await client("POST", "/v1/jobs/both/validate", json={"settings": {"retain": "2d"}})).json
        assert (valid["valid"], valid["columns"], valid["settings"]["retain"]) == (
            True,
            DERIVED["columns"],
            "2d",
        )
        invalid = (await client("POST", "/v1/jobs/both/validate", json={"sql": SQL})).json
        assert (invalid["valid"], invalid["errors"][0]["field"]) == (False, "sql")
        assert (await client("GET", "/v1/jobs/both/tree")).json["children"] == []
        given = {"window": edges(-9), "revision": 2, "columns": DERIVED["columns"], "rows": [[1]], "lines": 0}
        assert (await put(client, given, url="/v1/jobs/both/backfill/windows")).json["stored"] == 1

    with_fleet(main)


@pytest.mark.parametrize(
    ("derived", "field"),
    [
        ({"columns": []}, "derived.columns"),
        ({"columns": [{"name": "n"}]}, "derived.columns[0]"),
        ({"columns": [{"name": "", "type": "BIGINT"}]}, "derived.columns[0]"),
        ({"columns": [{"name": "n", "type": "INT"}]}, "derived.columns[0].type"),
        ({"columns": DERIVED["columns"] * 2}, "derived.columns"),
        ({**DERIVED, "size": "0s"}, "derived.size"),
        ({**DERIVED, "size": "soon"}, "derived.size"),
        ({**DERIVED, "text": 3}, "derived.text"),
        ({**DERIVED, "sql": SQL}, "derived.sql"),
        (3, "derived"),
    ],
)
def test_what_makes_no_derived_job_names_the_field(derived: Any, field: str) -> None:
    async def main(client: Client) -> None:
        refused = await client("POST", "/v1/jobs", json={"name": "x", "derived": derived})
        assert (refused.status, refused.json["field"]) == (400, field), refused.json
        both = await client("POST", "/v1/jobs", json={"name": "x", "derived": DERIVED, "sql": SQL})
        assert (both.status, both.json["field"]) == (400, "sql")

    with_fleet(main)


def test_the_client_sends_any_number_of_windows_and_makes_derived_jobs() -> None:
    async def main(client: Client) -> None:
        async with connect_async(client.running.url(1)) as fleet:
            job = await fleet.submit("hot", SQL)
            scope = await job.backfill_scope()
            assert (scope.revision, scope.plan.source, scope.end) == (1, "access", scope.boundary)
            many = [window(number, number) for number in range(1, REQUEST_WINDOWS + 3)]
            assert await job.put_windows(many) == {"stored": REQUEST_WINDOWS + 2, "same": 0, "replaced": 0}
            asked = [one for node in client.fleet.nodes for one in node.asked]
            assert len([one for one in asked if isinstance(one, IngestWindows)]) == 2
            again = await job.put_windows(map(msgspec.json.encode, many[:5]))
            assert again == {"stored": 0, "same": 5, "replaced": 0}
            with pytest.raises(elf.ApiError) as raised:
                await job.put_windows([window(0)])
            assert (raised.value.kind, raised.value.field, raised.value.line) == (
                "invalid",
                "window.start",
                1,
            )
            derived = await fleet.submit_derived("both", [("n", "BIGINT")], size="10s", text="a join")
            assert (await derived.show())["derived"] == DERIVED
            given = {
                "window": edges(3),
                "revision": 1,
                "columns": DERIVED["columns"],
                "rows": [[4]],
                "lines": 1,
            }
            assert (await derived.put_windows([given]))["stored"] == 1
            (result,) = [one async for one in derived.results()]
            assert (result.origin, result.rows[0].n) == ("backfill", 4)

    with_fleet(main, 2)
