"""The stream of results: every event once, in order, whatever happens to readers, nodes and masters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import aiohttp
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from master.api_options import ApiOptions
from master.requests import DescribeJob
from srt.ids import job_key
from tests.memory_fleet import Client, with_fleet

QUICK = ApiOptions(heartbeat_s=0.05, stalled_s=5.0)
STREAM = "/v1/jobs/hot/results/stream"


class Event(NamedTuple):
    name: str
    id: int | None
    data: Any


async def events(
    client: Client, path: str = STREAM, number: int = 0, opened: asyncio.Event | None = None, **headers: str
) -> AsyncIterator[Event]:
    """Until the stream ends or breaks. `opened` is set when it has begun."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    name, id = "", None
    async with client.session.get(client.running.url(number) + path, headers=sent) as answer:
        assert answer.status == 200, await answer.text()
        assert answer.headers["Content-Type"] == "text/event-stream"
        if opened is not None:
            opened.set()
        async for line in answer.content:
            key, _, value = line.decode().rstrip("\n").partition(": ")
            if key == "id":
                id = int(value)
            elif key == "event":
                name = value
            elif key == "data":
                yield Event(name, id, msgspec.json.decode(value))
                name, id = "", None


async def first(found: AsyncIterator[Event], count: int) -> list[Event]:
    taken = []
    async for event in found:
        taken.append(event)
        if len(taken) == count:
            break
    await found.aclose()  # type: ignore[attr-defined]
    return taken


def test_events_are_results_with_their_index() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        client.fleet.publish("hot", 0, [["/old", 1]])
        opened = asyncio.Event()
        coming = asyncio.ensure_future(first(events(client, opened=opened), 2))
        await opened.wait()
        client.fleet.publish("hot", 10, [["/a", 1]], "tentative")
        client.fleet.publish("hot", 10, [["/a", 2]], edition=2)
        one, two = await coming
        assert (one.name, one.id, one.data["id"], one.data["status"]) == ("result", 6, 6, "tentative")
        assert (two.id, two.data["rows"]) == (9, [{"path": "/a", "hits": 2}])
        assert [event.id for event in await first(events(client, STREAM + "?after=0"), 3)] == [3, 6, 9]
        finals = await first(events(client, STREAM + "?after=0&status=final&rows=0"), 2)
        assert [(event.id, event.data["rows"], event.data["row_count"]) for event in finals] == [(3, [], 1), (9, [], 1)]

    with_fleet(main, options=QUICK)


def test_it_goes_on_behind_the_last_event() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        for number in range(40):
            client.fleet.publish("hot", number * 10, [["/a", number]])
        seen = await first(events(client, STREAM + "?after=0"), 7)
        rest = await first(events(client, STREAM + "?after=0", Last_Event_ID=str(seen[-1].id)), 33)
        assert [event.data["rows"][0]["hits"] for event in seen + rest] == list(range(40))

    with_fleet(main, 2, QUICK)


def test_every_other_node_passes_the_stream_on() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        for number in range(3):
            stream = events(client, STREAM + "?after=0", number)
            coming = asyncio.ensure_future(first(stream, number + 1))
            client.fleet.publish("hot", number * 10, [["/a", number]])
            assert len(await coming) == number + 1

    with_fleet(main, 3, QUICK)


def test_what_was_dropped_is_told() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        for number in range(5):
            client.fleet.publish("hot", number * 10, [["/a", number]])
        client.fleet.drop("hot", 9)
        gap, result = await first(events(client, Last_Event_ID="3"), 2)
        assert (gap.name, gap.data) == ("gap", {"after": 3, "upto": 9})
        assert result.id == 12
        assert (await first(events(client, Last_Event_ID="9"), 1))[0].id == 12

    with_fleet(main, options=QUICK)


def test_ids_of_a_job_that_was_made_anew_are_told() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        client.fleet.publish("hot", 0, [["/a", 0]])
        stream = events(client, Last_Event_ID="500")
        reset = await anext(stream)
        client.fleet.publish("hot", 10, [["/a", 0]])
        result = await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        assert (reset.name, reset.data, result.id) == ("reset", {"after": 500, "last": 3}, 6)

    with_fleet(main, options=QUICK)


def test_a_new_master_that_lags_behind_repeats_nothing_and_resets_nobody() -> None:
    """It may have to finish and store many windows that its predecessor had published."""

    async def main(client: Client) -> None:
        await client.submit()
        job = client.fleet.jobs[job_key("hot")]
        job.ahead = 9
        coming = asyncio.ensure_future(first(events(client, Last_Event_ID="6"), 1))
        asked = client.fleet.nodes[0].asked
        while sum(isinstance(one, DescribeJob) for one in asked) < 4:  # where the stream begins, and whenever nothing came
            await asyncio.sleep(0.01)
        for number in range(3):
            job.ahead -= 3
            client.fleet.publish("hot", number * 10, [["/a", number]])
        assert [(event.name, event.id) for event in await coming] == [("result", 9)]

    with_fleet(main, options=QUICK)


@pytest.mark.parametrize("happening", ["removed", "moved", "stopping"])
def test_streams_end_with_a_reason(happening: str) -> None:
    async def main(client: Client) -> None:
        await client.submit()
        client.fleet.publish("hot", 0, [["/a", 1]])
        stream = events(client, STREAM + "?after=0")
        assert (await anext(stream)).id == 3
        leader = client.fleet.leader(job_key("hot"))
        shutdown = None
        if happening == "removed":
            assert (await client("DELETE", "/v1/jobs/hot")).status == 204
        elif happening == "moved":
            client.fleet.leaders[job_key("hot")] = 1 - leader
        else:
            shutdown = asyncio.ensure_future(client.running.runners[leader].shutdown())
        assert [(event.name, event.data["reason"]) async for event in stream] == [("end", happening)]
        if shutdown is not None:
            await shutdown

    with_fleet(main, 2, QUICK)


def test_streams_have_a_number() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        client.fleet.publish("hot", 0, [["/a", 1]])
        stream = events(client, STREAM + "?after=0")
        await anext(stream)
        refused = await client("GET", STREAM)
        assert (refused.status, refused.kind, refused.headers["Retry-After"]) == (429, "too-many", "1")
        await stream.aclose()  # type: ignore[attr-defined]
        while client.running.apis[0].counters()["http_streams_active"]:
            await asyncio.sleep(0.01)
        assert (await first(events(client, STREAM + "?after=0"), 1))[0].id == 3

    with_fleet(main, options=ApiOptions(heartbeat_s=0.05, streams_max=1))


@pytest.mark.parametrize("last", ["x", "-1", "99999999999999999999", "1.5", "٣"])
def test_ids_that_are_none(last: str) -> None:
    async def main(client: Client) -> None:
        await client.submit()
        answer = await client("GET", STREAM, headers={"Last-Event-ID": last})
        assert (answer.status, answer.json["field"]) == (400, "Last-Event-ID")

    with_fleet(main)


def test_a_reader_that_takes_nothing_is_dropped_and_goes_on_later() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        for number in range(60):
            client.fleet.publish("hot", number * 10, [["x" * 200_000, row] for row in range(5)])
        host, _, port = client.fleet.nodes[0].ref.address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
        writer.write(f"GET {STREAM}?after=0 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        await reader.readline()
        while not client.running.apis[0].counters()["http_readers_dropped_total"]:
            await asyncio.sleep(0.01)
        while client.running.apis[0].counters()["http_streams_active"]:  # its handler ends a moment later
            await asyncio.sleep(0.01)
        writer.close()
        client.session._read_bufsize = 2**20
        found = await first(events(client, STREAM + "?rows=0", Last_Event_ID="30"), 50)
        assert [event.id for event in found] == [3 * number for number in range(11, 61)]

    with_fleet(main, options=ApiOptions(heartbeat_s=0.05, stalled_s=0.3))


steps = st.lists(st.sampled_from(["publish", "burst", "reconnect", "lead", "break"]), max_size=12)


@settings(max_examples=20, deadline=None)
@given(steps)
def test_a_reader_sees_everything_once_through_any_history(history: list[str]) -> None:
    """The reader does what browsers do: it comes again with the last id it saw, at any node."""

    async def main(client: Client) -> None:
        await client.submit()
        seen: list[int] = []
        published = 0
        last: str | None = "0"
        number = 0
        reader: asyncio.Task[None] | None = None

        async def read() -> None:
            nonlocal last
            while True:
                try:
                    async for event in events(client, STREAM, number, **({"Last_Event_ID": last} if last else {})):
                        if event.name == "result":
                            seen.append(event.data["rows"][0]["hits"])
                            last = str(event.id)
                except aiohttp.ClientError:
                    await asyncio.sleep(0.01)

        for step in [*history, "publish"]:
            if reader is None or step in ("reconnect", "break"):
                if reader is not None:
                    reader.cancel()
                    await asyncio.gather(reader, return_exceptions=True)
                number = (number + 1) % 2
                reader = asyncio.ensure_future(read())
            if step == "lead":
                client.fleet.leaders[job_key("hot")] = 1 - client.fleet.leader(job_key("hot"))
            for _ in range({"publish": 1, "burst": 40}.get(step, 0)):
                client.fleet.publish("hot", published * 10, [["/a", published]])
                published += 1
            await asyncio.sleep(0.002)
        while len(seen) < published:
            await asyncio.sleep(0.005)
        assert reader is not None
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        assert seen == list(range(published))

    with_fleet(main, 2, QUICK)
