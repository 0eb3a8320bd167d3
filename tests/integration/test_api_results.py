"""Results over HTTP: pages, forms, cursors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.api_options import ApiOptions
from master.api_results import TableEncoder, preferred
from master.job_documents import cursor_of
from master.requests import Place, ResultRecord
from master.result_documents import RecordError, page_of, record_json
from tests.memory_fleet import COVERAGE, Client, MemoryFleet, MemoryReader, with_fleet


def test_pages_follow_each_other_without_gap_or_repeat() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        for number in range(7):
            client.fleet.publish("hot", number * 10, [["/a", number]])
        ids, path = [], "/v1/jobs/hot/results?limit=3"
        while path:
            page = await client("GET", path)
            ids += [result["id"] for result in page.json["results"]]
            link = page.headers.get("Link", "")
            assert bool(link) == (page.json["next"] is not None)
            path = link.partition(">")[0].removeprefix("<")
        assert ids == [3, 6, 9, 12, 15, 18, 21]
        assert page.json["last"] == 21

    with_fleet(main)


def test_the_latest_revision_of_each_window_or_all() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        fleet = client.fleet
        fleet.publish("hot", 0, [["/a", 1]], "tentative")
        fleet.publish("hot", 10, [["/b", 1]], "final")
        fleet.publish("hot", 0, [["/a", 2]], "final", 2)

        async def shown(query: str) -> list[tuple[str, int]]:
            found = (await client("GET", f"/v1/jobs/hot/results{query}")).json["results"]
            return [(result["status"], result["revision"]) for result in found]

        assert await shown("") == [("final", 2), ("final", 1)]
        assert await shown("?all=true") == [("tentative", 1), ("final", 2), ("final", 1)]
        assert await shown("?all=true&status=tentative") == [("tentative", 1)]
        assert await shown("?from=2025-11-28T20:00:10Z") == [("final", 1)]
        assert await shown("?to=2025-11-28T20:00:10Z") == [("final", 2)]
        assert await shown("?from=-1s") == []

    with_fleet(main)


def test_values_are_passed_on_as_they_were_written() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        window = "STRUCT<start: TIMESTAMP, end: TIMESTAMP>"
        columns = [("n", "BIGINT"), ("d", "DECIMAL(38,0)"), ("f", "DOUBLE"), ("w", window)]
        rows = [[9_223_372_036_854_775_807, "1" * 38, "NaN", {"start": "x", "end": "y"}], [None, None, 0.1, None]]
        client.fleet.publish("hot", None, rows, columns=columns)
        (result,) = (await client("GET", "/v1/jobs/hot/results")).json["results"]
        assert result["window"] is None
        assert result["rows"] == [dict(zip("ndfw", row, strict=True)) for row in rows]
        assert result["columns"][1] == {"name": "d", "type": "DECIMAL(38,0)"}
        assert result["coverage"]["missing"] == ["web3"]
        (short,) = (await client("GET", "/v1/jobs/hot/results?rows=1")).json["results"]
        assert (len(short["rows"]), short["row_count"]) == (1, 2)

    with_fleet(main)  # fmt: skip


def _table(records: Sequence[ResultRecord], rows_max: int | None) -> Iterable[bytes]:
    yield b"header %d\n" % (len(records[0].columns) if records else 0)
    for record in records:
        yield b"%d %s\n" % (record.index, str(rows_max).encode())


def test_forms_by_name_and_by_accept() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        client.fleet.publish("hot", 0, [["/a", 1]])
        client.fleet.publish("hot", 10, [["/a", 1]])
        client.fleet.publish("hot", 20, [["/a"]], columns=[("path", "STRING")])
        lines = await client("GET", "/v1/jobs/hot/results?format=ndjson")
        assert lines.headers["Content-Type"] == "application/x-ndjson"
        assert [msgspec.json.decode(line)["id"] for line in lines.body.splitlines()] == [3, 6, 9]
        liked = {"Accept": "text/x-table, application/json;q=0.5"}
        table = await client("GET", "/v1/jobs/hot/results?rows=7", headers=liked)
        assert (table.headers["Content-Type"], table.body) == ("text/x-table", b"header 2\n3 7\n6 7\n")
        path = table.headers["Link"].partition(">")[0].removeprefix("<")
        following = await client("GET", path, headers={"Accept": "text/*"})
        assert (following.body, "Link" in following.headers) == (b"header 1\n9 7\n", False)
        assert (await client("GET", "/v1/jobs/hot/results?format=table&from=-1s")).body == b"header 0\n"
        refused = await client("GET", "/v1/jobs/hot/results?format=xml")
        assert (refused.status, refused.kind, refused.json["field"]) == (406, "not-acceptable", "format")
        assert (await client("GET", "/v1/jobs/hot/results", headers={"Accept": "image/png"})).status == 406

    with_fleet(main, tables={"table": TableEncoder("text/x-table", _table)})  # fmt: skip


@pytest.mark.parametrize(
    ("accept", "best"),
    [
        ("*/*", "a/b"), ("c/d", "c/d"), ("a/*;q=0.1, c/d", "c/d"), ("text/html, */*; q=0.8", "a/b"), ("", None),
        ("a/b;q=0, */*", "c/d"), ("a/b; q=0.5; x=y, c/d; q=0.6", "c/d"), ("C/D", "c/d"), ("a/b;q=0", None), ("x/y", None),
        ("a/b;q=x,,;", "a/b"),
    ],
)  # fmt: skip
def test_what_accept_likes_best(accept: str, best: str | None) -> None:
    assert preferred(accept, ["a/b", "c/d"]) == best


@pytest.mark.parametrize(
    "query",
    ["from=yesterday", "limit=1001", "limit=x", "status=done", "all=maybe", "after=3", "rows=-1", "x=1", "to=2025-13-01"],
)
def test_questions_that_are_refused(query: str) -> None:
    async def main(client: Client) -> None:
        await client.submit()
        answer = await client("GET", f"/v1/jobs/hot/results?{query}")
        assert (answer.status, answer.json["field"]) == (400, query.partition("=")[0])

    with_fleet(main)


def test_an_unknown_job_has_no_results() -> None:
    async def main(client: Client) -> None:
        for number in (0, 1):
            assert (await client("GET", "/v1/jobs/none/results", number)).status == 404
            assert (await client("GET", "/v1/jobs/none/results/stream", number)).status == 404

    with_fleet(main, 2)


def test_pages_end_at_their_bytes() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        for number in range(4):
            client.fleet.publish("hot", number * 10, [["/a", number]])
        page = (await client("GET", "/v1/jobs/hot/results")).json
        assert len(page["results"]) == 1
        assert page["next"] is not None

    with_fleet(main, options=ApiOptions(page_bytes=1))


def test_a_member_that_has_all_results_answers_for_a_new_master() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        client.fleet.publish("hot", 0, [["/a", 1]])
        leader = client.fleet.leader(next(iter(client.fleet.jobs)))
        client.fleet.nodes[leader].results.lacking = (0, 3)
        for number in range(3):
            answer = await client("GET", "/v1/jobs/hot/results", number)
            assert answer.headers["Elfstream-Node"] != client.fleet.nodes[leader].ref.address
            assert [result["id"] for result in answer.json["results"]] == [3]
        for node in client.fleet.nodes:
            node.results.lacking = (0, 3)
        busy = await client("GET", "/v1/jobs/hot/results")
        assert (busy.status, busy.kind) == (503, "busy")

    with_fleet(main, 3)


def test_rows_that_cannot_be_read_are_a_defect() -> None:
    good = ResultRecord(1, 0, 1, 1, "final", 1, 0, 1, COVERAGE, (), 1, b"no zstd")
    with pytest.raises(RecordError):
        record_json(good)


window_names = st.tuples(st.none() | st.integers(0, 3), st.integers(1, 3))


@given(
    st.sets(window_names, max_size=12),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(1, 200),
    st.booleans(),
    st.booleans(),
)
def test_pages_of_any_size_hold_every_record_once(
    names: set[tuple[int | None, int]], limit: int, batch: int, bytes_max: int, same: bool, editions: bool
) -> None:
    fleet = MemoryFleet()
    key = fleet.empty_job("x")
    for start, edition in sorted(names, key=lambda name: (name[1], name[0] or -1)):
        width = (start or 0) % 2 + 1
        columns = [(f"c{number}", "BIGINT") for number in range(width)]
        fleet.publish("x", start, [[1] * width], edition=edition, columns=columns)
    reader = MemoryReader(fleet.store)

    def fetch(after: Place | None, count: int) -> Sequence[ResultRecord]:
        return reader.between(key, None, None, status=None, editions=editions, after=after, limit=count)

    found: list[ResultRecord] = []
    after: Place | None = None
    while True:
        page = page_of(fetch, after, limit, bytes_max, same, batch)
        assert len(page.records) <= limit
        assert not same or len({record.columns for record in page.records}) <= 1
        found += page.records
        if page.next is None:
            break
        assert page.records
        after = cursor_of(page.next)
    assert found == list(fetch(None, 1000))


def test_readers_may_be_slow_and_gone() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        for number in range(40):
            client.fleet.publish("hot", number * 10, [["x" * 200_000, row] for row in range(10)])
        host, _, port = client.fleet.nodes[0].ref.address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
        writer.write(f"GET /v1/jobs/hot/results HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        await reader.readline()
        counters = client.running.apis[0].counters
        while not counters()["http_readers_dropped_total"]:
            await asyncio.sleep(0.01)
        writer.close()
        assert (await client("GET", "/v1/jobs/hot")).status == 200
        while counters()["http_requests_active"]:  # its handler ends a moment later
            await asyncio.sleep(0.01)

    with_fleet(main, options=ApiOptions(stalled_s=0.2, heartbeat_s=0.1))

