"""Results as CSV and Arrow, and as series."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from elfstream.result_tables import tables
from tests.memory_fleet import Client, with_fleet

COLUMNS = [("path", "STRING"), ("n", "BIGINT"), ("d", "DECIMAL(10,2)"), ("f", "DOUBLE"), ("w", "STRUCT<start: TIMESTAMP, end: TIMESTAMP>")]  # fmt: skip # noqa: E501
WINDOW = {"start": "2025-11-28T20:00:00Z", "end": "2025-11-28T20:00:10Z"}


async def _published(client: Client) -> None:
    await client.submit()
    client.fleet.publish("hot", 0, [['/a "b"', 1, "1.50", 1e16, WINDOW], [None, None, None, None, None]], columns=COLUMNS)
    client.fleet.publish("hot", 10, [], columns=COLUMNS)
    client.fleet.publish("hot", 20, [["", 2, "0.00", "NaN", WINDOW]], "tentative", columns=COLUMNS)


def test_csv_is_that_of_the_command_line_behind_the_window() -> None:
    async def main(client: Client) -> None:
        await _published(client)
        table = await client("GET", "/v1/jobs/hot/results", headers={"Accept": "text/csv"})
        assert table.headers["Content-Type"] == "text/csv"
        first, second = "2025-11-28T20:00:00Z,2025-11-28T20:00:10Z", "2025-11-28T20:00:20Z,2025-11-28T20:00:30Z"
        assert table.body.decode().splitlines() == [
            "_start,_end,_revision,_status,path,n,d,f,w.start,w.end",
            f'{first},1,final,"/a ""b""",1,1.50,1e+16,{first}',
            f"{first},1,final,,,,,,",
            f'{second},1,tentative,"",2,0.00,NaN,{first}',
        ]
        empty = await client("GET", "/v1/jobs/hot/results?format=csv&from=-1s")
        assert empty.body == b"_start,_end,_revision,_status\n"

    with_fleet(main, tables=tables())


def test_arrow() -> None:
    pyarrow = pytest.importorskip("pyarrow")

    async def main(client: Client) -> None:
        await _published(client)
        answer = await client("GET", "/v1/jobs/hot/results?format=arrow")
        assert answer.headers["Content-Type"] == "application/vnd.apache.arrow.stream"
        rows = pyarrow.ipc.open_stream(answer.body).read_all().to_pylist()
        start, end = datetime(2025, 11, 28, 20, tzinfo=UTC), datetime(2025, 11, 28, 20, 0, 10, tzinfo=UTC)
        assert rows[0] == {
            "_start": start, "_end": end, "_revision": 1, "_status": "final",
            "path": '/a "b"', "n": 1, "d": Decimal("1.50"), "f": 1e16, "w": {"start": start, "end": end},
        }  # fmt: skip
        assert (len(rows), rows[1]["n"], rows[2]["_status"]) == (3, None, "tentative")
        nothing = await client("GET", "/v1/jobs/hot/results?format=arrow&from=-1s")
        assert pyarrow.ipc.open_stream(nothing.body).read_all().num_rows == 0

    with_fleet(main, tables=tables())


def test_the_latest_final_window_as_series() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        assert b"\nelfstream_result{" not in (await client("GET", "/v1/jobs/hot/metrics")).body
        client.fleet.publish("hot", 10, [["/a", 5]])
        client.fleet.publish("hot", 0, [["/a", 3]], edition=2)
        for number in range(200):
            client.fleet.publish("hot", 20, [["/a", 9]], "tentative", number + 1)
        answer = await client("GET", "/v1/jobs/hot/metrics", 1)
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4"
        assert b'elfstream_result{job="hot",path="/a",column="hits"} 5.0\n' in answer.body
        assert (await client("GET", "/v1/jobs/none/metrics")).status == 404

    with_fleet(main, 2)
