"""The clients of Python against nodes with real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from aiohttp import web

import elfstream as elf
from elfstream.backfilled import REQUEST_WINDOWS
from elfstream.client import AsyncClient, api_error, connect_async
from elfstream.client_sync import connect
from elfstream.commands.job_submit import taken_up
from elfstream.fleet_session import FleetError
from elfstream.remote_results import window_result
from job.types import ARRAY, BIGINT, BOOLEAN, DOUBLE, NULL, STRING, TIMESTAMP, WINDOW, decimal, type_of
from master.api_options import ApiOptions
from master.asking import Tries, retry_after_s
from master.event_stream import EventParser
from master.problems import KINDS, Problem
from master.requests import RecoverJob, SubmitJob
from srt.ids import job_key
from tests.memory_fleet import SQL, Client, Running, with_fleet
from tests.patience import PATIENCE_S

QUICK = ApiOptions(heartbeat_s=0.05)
OTHER_SQL = "SELECT status, count(*) AS n FROM access WHERE status >= :least GROUP BY status"


def test_a_job_from_its_making_to_its_end() -> None:
    async def main(client: Client) -> None:
        async with connect_async(client.running.url(1)) as fleet:
            job = await fleet.submit("hot", OTHER_SQL, settings={"emit": "1s"}, parameters={"least": 500})
            assert [one["name"] for one in await fleet.jobs()] == ["hot"]
            assert (await job.show())["parameters"] == {"least": 500}
            changed = await job.change(parameters={"least": 400}, start=datetime(2025, 11, 28, 20, tzinfo=UTC))
            assert (changed["revision"], changed["settings"]["emit"]) == (2, "1s")
            assert (await job.changes())[1]["start"] == "2025-11-28T20:00:00Z"
            with pytest.raises(elf.ApiError) as raised:
                await job.change(settings={"emit": "2s"}, revision=1)
            assert (raised.value.kind, raised.value.status, raised.value.field) == ("stale", 412, "If-Match")
            assert (await job.tree())["role"] == "root"
            assert (await job.forget("web3"))["name"] == "hot"
            assert (await job.stop(drain=True))["state"] == "draining"
            await job.remove()
            with pytest.raises(elf.ApiError, match="no such job") as raised:
                await job.show()
            assert raised.value.kind == "unknown"
            assert [node["name"] for node in await fleet.nodes()] == ["web1", "web2"]
            assert (await fleet.node("web2"))["name"] == "web2"
            assert [source["name"] for source in await fleet.sources()] == ["access"]
            assert (await fleet.validate("SELECT"))["valid"] is False
            with pytest.raises(elf.ApiError) as raised:
                await fleet.submit("x", "SELECT nothing FROM access")
            assert (raised.value.kind, raised.value.position) == ("sql", 7)

    with_fleet(main, 2, QUICK)


COLUMNS = [
    ("w", str(WINDOW)), ("p", "STRING"), ("n", "BIGINT"), ("d", "DECIMAL(20,2)"), ("f", "DOUBLE"), ("t", "TIMESTAMP"),
    ("b", "BOOLEAN"), ("a", "ARRAY<DOUBLE>"), ("z", "NULL"),
]  # fmt: skip



def test_no_other_node_recovers_a_job_than_the_one_that_is_named() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        alive = client.running.url(0)
        async with connect_async(["http://127.0.0.1:9", alive]) as fleet:
            with pytest.raises(ValueError, match="2 nodes are named"):
                await fleet.job("hot").recover("hot")
        assert not any(isinstance(request, RecoverJob) for request in client.fleet.nodes[0].asked)
        async with connect_async(alive) as fleet:
            assert (await fleet.job("hot").recover("hot"))["name"] == "hot"

    with_fleet(main)


def test_rows_are_typed_as_those_of_a_query() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        start, end = "2025-11-28T20:00:00Z", "2025-11-28T20:00:10Z"
        window, long = {"start": start, "end": end}, "12345678901234567.25"
        row = [window, "/ä", 2**62, long, "-Infinity", start, True, [0.5, None], None]
        client.fleet.publish("hot", 0, [row, [None] * 9, [None, "", 0, "0.00", 1, None, False, [], None]], columns=COLUMNS)
        client.fleet.publish("hot", None, [], "tentative")
        async with connect_async(client.running.url()) as fleet:
            first, endless = sorted([one async for one in fleet.job("hot").results()], key=lambda one: one.window is None)
        moment = datetime(2025, 11, 28, 20, tzinfo=UTC)
        assert endless.window is None
        assert first.window == elf.Window(moment, moment.replace(second=10))
        assert (first.coverage.agents, first.coverage.missing, first.columns[3].type) == (2, ("web3",), decimal(20, 2))
        one, two, three = first.rows
        assert one.w == first.window
        assert tuple(one)[1:] == ("/ä", 2**62, Decimal(long), float("-inf"), moment, True, [0.5, None], None)
        assert tuple(two) == (None,) * 9
        assert (type(three.f), three.d, three.asdict()["p"]) == (float, Decimal("0.00"), "")

    with_fleet(main)  # fmt: skip


def test_all_results_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(client: Client) -> None:
        monkeypatch.setattr("elfstream.client.PAGE_WINDOWS", 3)
        await client.submit()
        for number in range(10):
            client.fleet.publish("hot", number * 10, [["/a", number]])
        client.fleet.publish("hot", 0, [["/a", 99]], edition=2)
        async with connect_async(client.running.url()) as fleet:
            job = fleet.job("hot")
            assert [one.rows[0].hits async for one in job.results()] == [99, *range(1, 10)]
            assert [one.rows[0].hits async for one in job.results(all=True)] == [0, 99, *range(1, 10)]
            some = job.results(datetime(2025, 11, 28, 20, 0, 20), datetime(2025, 11, 28, 20, 0, 40, tzinfo=UTC), rows=0)
            assert [one.row_count async for one in some] == [1, 1]

    with_fleet(main)  # fmt: skip


def test_watching_goes_on_through_restarts_and_takeovers() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        key, seen = job_key("hot"), []
        client.fleet.leaders[key] = 0
        urls = [client.running.url(number) for number in range(3)]
        async with connect_async(urls) as fleet:

            async def watch() -> None:
                async for one in fleet.job("hot").watch(after=0):
                    seen.append(one.rows[0].hits)

            async def publish(count: int) -> None:
                first = client.fleet.jobs[key].newest // 3
                for number in range(first, first + count):
                    client.fleet.publish("hot", number * 10, [["/a", number]])
                while len(seen) < first + count:
                    await asyncio.sleep(0.01)

            watcher = asyncio.ensure_future(watch())
            await publish(20)
            client.fleet.leaders[key] = 1
            await publish(5)
            await client.running.kill(0)
            await publish(5)
            client.fleet.leaders[key] = 2
            await client.running.kill(1)
            await publish(20)
            await client("DELETE", "/v1/jobs/hot", 2)
            await watcher
            assert seen == list(range(50))

    with_fleet(main, 3, QUICK)


def test_watching_from_now_on_and_what_was_lost() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        for number in range(5):
            client.fleet.publish("hot", number * 10, [["/a", number]])
        client.fleet.drop("hot", 9)
        async with connect_async(client.running.url()) as fleet:
            job = fleet.job("hot")
            watcher = job.watch()
            coming = asyncio.ensure_future(anext(watcher))  # type: ignore[arg-type]
            while not client.running.apis[0].counters()["http_streams_active"]:
                await asyncio.sleep(0.01)
            client.fleet.publish("hot", 50, [["/a", 5]])
            assert (await coming).id == 18
            await watcher.aclose()  # type: ignore[attr-defined]
            with pytest.raises(elf.ResultsLostError) as raised:
                await anext(job.watch(after=3))  # type: ignore[arg-type]
            assert (raised.value.after, raised.value.resume) == (3, 9)
            with pytest.raises(elf.ApiError) as refused:
                await anext(fleet.job("none").watch())  # type: ignore[arg-type]
            assert refused.value.kind == "unknown"

    with_fleet(main, options=QUICK)


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience is measured in looks at the clock: on a busy machine one request may take longer than all of it."""
    looks = itertools.count()
    monkeypatch.setattr("elfstream.client.Tries", partial(Tries, clock=lambda: next(looks) / 100))

    async def main(client: Client) -> None:
        client.fleet.leaderless = True
        async with connect_async(client.running.url(), patience_s=0.3) as fleet:
            with pytest.raises(elf.ApiError) as raised:
                await fleet.job("hot").show()
            assert raised.value.kind == "no-master"
            asked = len(client.fleet.nodes[0].asked)
            assert asked > 1
        url = client.running.url()
        await client.running.kill(0)
        async with connect_async(url, patience_s=0.3) as fleet:
            with pytest.raises(elf.UnreachableError, match=r"127\.0\.0\.1"):
                await fleet.jobs()
            with pytest.raises(elf.UnreachableError):
                await anext(fleet.job("hot").watch(after=0))  # type: ignore[arg-type]

    with_fleet(main)


def test_a_fleet_that_takes_no_further_job_is_not_asked_sooner_than_it_says() -> None:
    async def main(client: Client) -> None:
        node = client.fleet.nodes[0]
        held, asked = asyncio.Event(), asyncio.Event()
        ask, submits = node.ask, 0

        async def slow(key: bytes, request: Any) -> Any:
            nonlocal submits
            if isinstance(request, SubmitJob):
                submits += 1
                asked.set()
                await held.wait()
            return await ask(key, request)

        node.ask = slow  # type: ignore[method-assign]
        async with connect_async(client.running.url(), patience_s=1.0) as fleet:
            first = asyncio.create_task(fleet.submit("one", OTHER_SQL, parameters={"least": 1}))
            await asked.wait()
            with pytest.raises(elf.ApiError, match="1 jobs are being made") as raised:
                await fleet.submit("two", OTHER_SQL, parameters={"least": 2})
            assert (raised.value.status, raised.value.kind, submits) == (503, "overloaded", 1)
            told = await client("POST", "/v1/jobs", json={"name": "two", "sql": SQL})
            assert told.headers["Retry-After"] == "2"
            assert client.running.apis[0].counters()["http_requests_total"]["503"] == 2  # one of each
            held.set()
            await first
            await fleet.submit("two", OTHER_SQL, parameters={"least": 2})

    with_fleet(main, options=ApiOptions(submits_max=1))


def test_how_long_an_answer_asks_to_wait() -> None:
    assert all(2.0 <= retry_after_s({"Retry-After": "2"}) <= 3.0 for _ in range(100))
    assert all(1.0 <= retry_after_s({"Retry-After": value}) <= 1.5 for value in ("", "-5", "1e9", "99999", "soon"))


def test_submit_waits_longer_than_its_client_is_patient() -> None:
    """--wait-max says how long; the client gives one request up much sooner."""

    async def main(client: Client) -> None:
        await client.submit()
        client.fleet.leaderless = True
        node = client.fleet.nodes[0]

        async def take_over(asked: int) -> None:
            while len(node.asked) < asked:
                await asyncio.sleep(0.01)
            client.fleet.leaderless = False

        async with connect_async(client.running.url(), patience_s=0.0) as fleet:
            await asyncio.gather(taken_up(fleet, fleet.job("hot"), PATIENCE_S), take_over(len(node.asked) + 3))
            client.fleet.leaderless = True
            with pytest.raises(FleetError, match=r"hot is not known to be taken up: no node is known .* after 0\.1 s"):
                await taken_up(fleet, fleet.job("hot"), 0.1)
            client.fleet.leaderless = False
            with pytest.raises(elf.ApiError, match="no such job"):
                await taken_up(fleet, fleet.job("none"), PATIENCE_S)

    with_fleet(main)


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.retry_s])
def test_submit_waits_for_whatever_passes(kind: str) -> None:
    """Nodes that do not agree on who leads the job, 508, for one."""
    refusing = 3

    class Passing(Running):
        def made(self, app: web.Application) -> None:
            app.middlewares.append(passing)

    @web.middleware
    async def passing(request: web.Request, handler: Any) -> web.StreamResponse:
        nonlocal refusing
        if request.path == "/v1/jobs/hot" and refusing:
            refusing -= 1
            raise Problem(kind, "for now")
        return await handler(request)

    async def main(client: Client) -> None:
        await client.submit()
        async with connect_async(client.running.url(), patience_s=0.0) as fleet:
            await taken_up(fleet, fleet.job("hot"), PATIENCE_S)
        assert refusing == 0

    with_fleet(main, running=Passing)


def test_what_took_too_long_is_asked_for_again() -> None:
    """The first query that a node compiles takes longer than the next, and a busy one gives both up (504)."""

    async def main(client: Client) -> None:
        node = client.fleet.nodes[0]
        node.silent = True

        async def wake() -> None:
            while len(node.asked) < 2:
                await asyncio.sleep(0.01)
            node.silent = False

        async with connect_async(client.running.url()) as fleet:
            with pytest.raises(elf.ApiError) as raised:
                await asyncio.gather(fleet.job("hot").show(), wake())
            assert raised.value.kind == "unknown"

    with_fleet(main)


def test_a_request_waits_for_a_takeover() -> None:
    async def main(client: Client) -> None:
        await client.submit()
        client.fleet.leaderless = True

        async def take_over() -> None:
            while len(client.fleet.nodes[0].asked) < 5:
                await asyncio.sleep(0.01)
            client.fleet.leaderless = False

        async with connect_async(client.running.url()) as fleet:
            shown, _ = await asyncio.gather(fleet.job("hot").show(), take_over())
        assert shown["name"] == "hot"

    with_fleet(main)


def test_the_token_is_brought() -> None:
    async def main(client: Client) -> None:
        async with connect_async(client.running.url(), token="secret") as fleet:
            assert await fleet.jobs() == []
        async with AsyncClient([client.running.url()], None, None, 1.0) as fleet:
            with pytest.raises(elf.ApiError, match="asks for a token"):
                await fleet.jobs()

    with_fleet(main, options=ApiOptions(token="secret"))


def test_plain_calls() -> None:
    def work(url: str, fleet_: Any) -> None:
        with connect(url.removeprefix("http://")) as fleet:
            job = fleet.submit("hot", SQL)
            assert job.name == "hot"
            assert job.change(settings={"emit": "1s"})["revision"] == 2
            assert len(job.changes()) == 2
            assert job.show()["revision"] == 2
            assert (fleet.nodes()[0]["name"], fleet.node("self")["name"]) == ("web1", "web1")
            assert fleet.sources()[0]["name"] == "access"
            assert fleet.validate(SQL)["valid"]
            assert job.tree(1)["role"] == "root"
            assert job.forget("web3")["name"] == "hot"
            fleet_.publish(30)
            assert [one.rows[0].hits for one in job.results()] == list(range(30))
            watcher = job.watch(after=0)
            assert [next(watcher).id for _ in range(30)] == [3 * number for number in range(1, 31)]
            watcher.close()
            assert len(fleet.jobs()) == 1
            assert job.stop()["state"] == "stopped"
            job.remove()
            with pytest.raises(elf.ApiError):
                job.show()

    async def main(client: Client) -> None:
        loop = asyncio.get_running_loop()

        class Fleet:
            def publish(self, count: int) -> None:
                async def publish() -> None:
                    for number in range(count):
                        client.fleet.publish("hot", number * 10, [["/a", number]])

                asyncio.run_coroutine_threadsafe(publish(), loop).result()

        await asyncio.to_thread(work, client.running.url(), Fleet())

    with_fleet(main, options=QUICK)  # fmt: skip


def test_windows_may_be_made_with_the_client_that_sends_them() -> None:
    def work(url: str) -> None:
        caller = threading.current_thread()
        with connect(url) as fleet:
            job = fleet.submit_derived("shares", [("n", "BIGINT")], size="10s")

            def windows() -> Iterator[dict[str, Any]]:
                columns = [{"name": "n", "type": "BIGINT"}]
                for number in range(REQUEST_WINDOWS + 2):
                    if number in (0, REQUEST_WINDOWS + 1):
                        # In the client's own thread the question would wait for itself.
                        assert threading.current_thread() is caller
                        assert job.show()["revision"] == 1
                    start = datetime(2025, 11, 28) + timedelta(seconds=10 * number)
                    times = {"start": f"{start.isoformat()}Z", "end": f"{(start + timedelta(seconds=10)).isoformat()}Z"}
                    yield {"window": times, "revision": 1, "lines": 0, "columns": columns, "rows": [[number]]}

            assert job.put_windows(windows()) == {"stored": REQUEST_WINDOWS + 2, "same": 0, "replaced": 0}
            assert job.put_windows([]) == {"stored": 0, "same": 0, "replaced": 0}

    async def main(client: Client) -> None:
        await asyncio.to_thread(work, client.running.url())

    with_fleet(main, options=QUICK)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<html>log in</html>", "JSON is malformed"),
        (b"[]", "Expected `object`"),
        (b"{}", "there is no "),
        (b'{"jobs": 1, "next": 2, "last": "x", "nodes": {}, "revision": [], "results": [{}]}', ""),
        (b" " * 1001, "more than 1000 bytes"),
    ],
)
def test_what_no_node_would_say_is_told_with_its_address(body: bytes, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elfstream.client.ANSWER_BYTES_MAX", 1000)

    class Odd(Running):
        def made(self, app: web.Application) -> None:
            app.middlewares.insert(0, odd)

    @web.middleware
    async def odd(request: web.Request, handler: Any) -> web.StreamResponse:
        if request.path.endswith("/stream"):
            return web.Response(body=b"event: result\ndata: " + body + b"\n\n", content_type="text/event-stream")
        return web.Response(body=body)

    async def main(client: Client) -> None:
        url = client.running.url()
        async with connect_async(url, patience_s=3600.0) as fleet:
            job = fleet.job("hot")
            works: list[Any] = [fleet.jobs(), fleet.nodes(), job.last_id(), job.changes(), job.change(), job.put_body(b"")]
            works += [anext(job.results()), anext(job.watch(after=0)), job.backfill_scope()]
            for work in works:
                with pytest.raises(elf.UnreachableError, match="what came is not what a node of elfstream says") as raised:
                    await work
                assert str(raised.value).startswith(url)
                assert said in str(raised.value) or work is works[-2]

    with_fleet(main, running=Odd)


def test_a_stream_has_a_limit() -> None:
    """Of one event, which a client holds until its end comes."""

    class Endless(Running):
        def made(self, app: web.Application) -> None:
            app.middlewares.insert(0, endless)

    @web.middleware
    async def endless(request: web.Request, handler: Any) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(b"data: " + b"x" * 1000 + b"\n")
        return response

    async def main(client: Client) -> None:
        async with connect_async(client.running.url(), patience_s=3600.0) as fleet:
            with pytest.raises(elf.UnreachableError, match="an event of the stream has more than"):
                await anext(fleet.job("hot").watch(after=0))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("elfstream.client.EventParser", lambda: EventParser(bytes_max=100_000))
        with_fleet(main, running=Endless)


def test_closing_a_client_ends_a_watcher_in_another_thread() -> None:
    def work(url: str) -> list[int]:
        seen: list[int] = []
        fleet = connect(url)
        job = fleet.submit("hot", SQL)
        waits = threading.Event()

        def watch() -> None:
            waits.set()
            seen.extend(result.id for result in job.watch(after=0))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        assert waits.wait(PATIENCE_S)
        fleet.close()
        watcher.join(PATIENCE_S)
        assert not watcher.is_alive()
        with pytest.raises(CancelledError):
            job.show()
        fleet.close()
        return seen

    async def main(client: Client) -> None:
        assert await asyncio.to_thread(work, client.running.url()) == []

    with_fleet(main, options=QUICK)


def test_what_is_no_node() -> None:
    assert "does not seem to be a node" in str(api_error(502, b"<html>"))
    with pytest.raises(ValueError, match="no address"):
        elf.connect_async([])
    with pytest.raises(KeyError):
        window_result({})


@pytest.mark.parametrize(
    "type", [NULL, BOOLEAN, BIGINT, DOUBLE, STRING, TIMESTAMP, WINDOW, ARRAY, decimal(38, 0), decimal(18, 6)]
)
def test_types_are_read_back(type: Any) -> None:
    assert type_of(str(type)) == type


@pytest.mark.parametrize("text", ["", "INT", "DECIMAL", "DECIMAL(39,0)", "DECIMAL(1,2)", "DECIMAL(1, 0)", "ARRAY<STRING>"])
def test_what_is_no_type(text: str) -> None:
    with pytest.raises(ValueError):
        type_of(text)
