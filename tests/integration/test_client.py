"""The clients of Python against nodes with real sockets."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

import elfstream as elf
from elfstream.client import AsyncClient, api_error, connect_async
from elfstream.client_sync import connect
from elfstream.remote_results import window_result
from job.types import ARRAY, BIGINT, BOOLEAN, DOUBLE, NULL, STRING, TIMESTAMP, WINDOW, decimal, type_of
from master.api_options import ApiOptions
from srt.ids import job_key
from tests.memory_fleet import SQL, Client, with_fleet

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


def test_patience_ends() -> None:
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
        waits.wait(10)
        fleet.close()
        watcher.join(10)
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
