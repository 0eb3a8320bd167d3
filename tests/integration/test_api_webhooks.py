"""Webhooks: what they are sent, that it comes at least once, and that a new master goes on where the old one was."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from typing import Any

import msgspec
import pytest
from aiohttp import web

from master import api_webhooks, webhook_messages
from master.api_options import ApiOptions
from srt.ids import job_key
from tests.memory_fleet import Client, with_fleet
from tests.patience import PATIENCE_S

KEY = job_key("hot")


class Receiver:
    """A server that keeps what it gets; answers as it is told, first come first served, then with 204."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)
        self.bodies: list[dict[str, Any]] = []
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.came = asyncio.Event()

    async def __aenter__(self) -> Receiver:
        app = web.Application()
        app.router.add_post("/hook", self._take)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/hook"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.requests.append((dict(request.headers), body))
        status = self.answers.pop(0) if self.answers else 204
        if status < 300:
            self.bodies.append(msgspec.json.decode(body))
        self.came.set()
        return web.Response(status=status, headers={"Location": "/elsewhere"} if status == 302 else {})

    async def ids(self, count: int) -> list[int]:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.bodies) < count:
                self.came.clear()
                await self.came.wait()
        return [body["id"] for body in self.bodies]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_webhooks, "LOOK_S", 0.02)
    monkeypatch.setattr(api_webhooks, "NOTE_S", 0.0)
    monkeypatch.setattr(webhook_messages, "RETRY_FIRST_S", 0.01)


async def _noted(client: Client, upto: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while client.fleet.jobs[KEY].delivered < upto:
            await asyncio.sleep(0.01)


def test_final_windows_with_rows_are_sent_in_order_and_signed() -> None:
    async def main(client: Client) -> None:
        async with Receiver() as receiver:
            await client.submit(settings={"webhook": receiver.url})
            fleet = client.fleet
            fleet.publish("hot", 0, [["/a", 1]], "tentative")
            fleet.publish("hot", 0, [["/a", 2]], edition=2)
            fleet.publish("hot", 10, [])
            fleet.publish("hot", 20, [["/b", 7]])
            assert await receiver.ids(2) == [6, 12]
            assert (receiver.bodies[0]["job"], receiver.bodies[0]["rows"]) == ("hot", [{"path": "/a", "hits": 2}])
            headers, body = receiver.requests[0]
            signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
            expected = base64.b64encode(hmac.new(b"secret", signed, hashlib.sha256).digest()).decode()
            assert (headers["webhook-id"], headers["webhook-signature"]) == ("hot:6", f"v1,{expected}")
            await _noted(client, 12)
            assert client.running.apis[0].counters()["webhook_deliveries_total"] == {"delivered": 2, "failed": 0}

    with_fleet(main, options=ApiOptions(webhook_secret=b"secret"))


def test_a_backfill_wakes_nobody_but_who_listens_to_a_derived_job() -> None:
    columns = [{"name": "n", "type": "BIGINT"}]

    async def main(client: Client) -> None:
        async with Receiver() as receiver:
            settings = {"webhook": receiver.url}
            sql = "SELECT count(*) AS n FROM access GROUP BY window(time, '10 seconds')"
            await client.submit(sql=sql, settings=settings)
            derived = {"columns": columns, "size": "10s"}
            await client("POST", "/v1/jobs", json={"name": "both", "derived": derived, "settings": settings})
            line = {
                "window": {"start": "2025-11-28T10:00:00Z", "end": "2025-11-28T10:00:10Z"}, "revision": 1, "lines": 1,
                "columns": columns, "rows": [[7]],
            }  # fmt: skip
            for name in ("hot", "both"):
                answer = await client(
                    "PUT", f"/v1/jobs/{name}/backfill/windows", data=msgspec.json.encode(line),
                    headers={"Content-Type": "application/x-ndjson"},
                )  # fmt: skip
                assert answer.json["stored"] == 1, answer.body
            client.fleet.publish("hot", 10, [[1]], columns=[("n", "BIGINT")])
            await receiver.ids(2)
            assert sorted(body["job"] for body in receiver.bodies) == ["both", "hot"]
            assert {body["origin"] for body in receiver.bodies if body["job"] == "hot"} == {"live"}

    with_fleet(main)


def test_what_is_not_taken_is_sent_again_with_the_same_id() -> None:
    async def main(client: Client) -> None:
        async with Receiver(500, 302, 404) as receiver:
            await client.submit(settings={"webhook": receiver.url})
            client.fleet.publish("hot", 0, [["/a", 1]])
            client.fleet.publish("hot", 10, [["/a", 2]])
            assert await receiver.ids(2) == [3, 6]
            sent = [headers["webhook-id"] for headers, _ in receiver.requests]
            assert sent == ["hot:3"] * 4 + ["hot:6"]
            assert client.running.apis[0].counters()["webhook_deliveries_total"]["failed"] == 3

    with_fleet(main)


def test_the_next_master_goes_on_behind_what_was_delivered() -> None:
    async def main(client: Client) -> None:
        async with Receiver() as receiver:
            await client.submit(settings={"webhook": receiver.url})
            for number in range(3):
                client.fleet.publish("hot", number * 10, [["/a", number]])
            await receiver.ids(3)
            await _noted(client, 9)
            before = client.fleet.leader(KEY)
            client.fleet.leaders[KEY] = 1 - before
            async with asyncio.timeout(PATIENCE_S):
                while KEY in client.running.apis[before]._webhooks._tasks:
                    await asyncio.sleep(0.01)
            for number in range(3, 6):
                client.fleet.publish("hot", number * 10, [["/a", number]])
            assert await receiver.ids(6) == [3, 6, 9, 12, 15, 18]

    with_fleet(main, 2)


def test_a_job_that_gets_a_webhook_sends_what_comes_from_then_on() -> None:
    async def main(client: Client) -> None:
        async with Receiver() as receiver:
            await client.submit()
            client.fleet.publish("hot", 0, [["/a", 1]])
            patch = {"settings": {"webhook": receiver.url}}
            assert (await client("PATCH", "/v1/jobs/hot", json=patch, headers={"If-Match": "*"})).status == 200
            client.fleet.publish("hot", 10, [["/a", 2]], plan=1)
            client.fleet.publish("hot", 20, [["/a", 3]], plan=2)
            assert await receiver.ids(1) == [9]
            patch = {"settings": {"webhook": None}}
            await client("PATCH", "/v1/jobs/hot", json=patch, headers={"If-Match": "*"})
            async with asyncio.timeout(PATIENCE_S):
                while client.running.apis[0]._webhooks._tasks[KEY][0] != 3:
                    await asyncio.sleep(0.01)
            client.fleet.publish("hot", 30, [["/a", 4]], plan=2)
            await asyncio.gather(client.running.apis[0]._webhooks._tasks[KEY][1])
            assert [body["id"] for body in receiver.bodies] == [9]

    with_fleet(main)


def test_what_nobody_takes_is_given_up_when_it_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(client: Client) -> None:
        async with Receiver(*[500] * 5) as receiver:
            await client.submit(settings={"webhook": receiver.url})
            client.fleet.publish("hot", 0, [["/a", 1]])
            async with asyncio.timeout(PATIENCE_S):
                await receiver.came.wait()
            client.fleet.publish("hot", 10, [["/a", 2]])
            client.fleet.drop("hot", 3)
            assert await receiver.ids(1) == [6]
            assert client.running.apis[0].counters()["webhook_given_up_total"] == 1

    with_fleet(main)


def test_hosts_that_are_not_allowed_get_nothing() -> None:
    assert webhook_messages.allowed("http://a.example:1/x", frozenset({"a.example"}))
    assert not webhook_messages.allowed("http://b.example/x", frozenset({"a.example"}))

    async def main(client: Client) -> None:
        async with Receiver() as receiver:
            refused = await client(
                "POST", "/v1/jobs", json={"name": "hot", "sql": "SELECT 1", "settings": {"webhook": receiver.url}}
            )
            assert (refused.status, refused.json["field"]) == (400, "settings.webhook")

    with_fleet(main, options=ApiOptions(webhook_hosts=frozenset({"alerts.example"})))


def test_waits_between_attempts_grow_to_a_bound() -> None:
    waits = [webhook_messages.retry_s(attempts) for attempts in range(1, 100)]
    assert waits == sorted(waits)
    assert waits[-1] == webhook_messages.RETRY_MOST_S
