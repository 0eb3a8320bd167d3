"""Webhooks of the jobs that this node leads: final windows with rows go out, in order, at least once.

There is no queue: what is to be sent is read from the store of results behind the last that was delivered. How far that is
stands in the job's log (NoteDelivered), so the next master goes on there and sends at most the last second's again.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from functools import lru_cache
from typing import Any

import aiohttp

from master import webhook_messages as messages
from master.api_options import ApiOptions
from master.api_results import ResultHandlers
from master.requests import DescribeJob, DescribeNode, JobView, NodeView, NoteDelivered, ResultRecord
from master.service import NodeService, Refused
from srt.ids import ID_BYTES, job_key

log = logging.getLogger("elfstream.webhooks")
LOOK_S = 1.0
"""Which jobs are led here is looked at so often."""
NOTE_S = 1.0
"""What was delivered is noted at most so often."""
ANSWER_S = 10.0
"""An answer that takes longer is none."""
SENDING_MAX = 32
BATCH = 16
_NO_KEY = bytes(ID_BYTES)
_key_of = lru_cache(1 << 16)(job_key)


class Webhooks:
    """Runs on the loop of the node, one task for each job that has a webhook and is led here."""

    def __init__(self, service: NodeService, options: ApiOptions, pages: ResultHandlers) -> None:
        self._service, self._options, self._pages = service, options, pages
        self._tasks: dict[bytes, tuple[int, asyncio.Task[None]]] = {}
        """By the job's key: the revision that was current, and what is sent for it."""
        self._sending = asyncio.Semaphore(SENDING_MAX)
        self._session: aiohttp.ClientSession | None = None
        self._looker: asyncio.Task[None] | None = None
        self._delivered = self._failed = self._given_up = 0

    def counters(self) -> dict[str, Any]:
        return {
            "webhook_deliveries_total": {"delivered": self._delivered, "failed": self._failed},
            "webhook_given_up_total": self._given_up,
        }

    def start(self) -> None:
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=ANSWER_S),
            headers={"User-Agent": "elfstream"},
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self._looker = asyncio.create_task(self._look())

    async def close(self) -> None:
        tasks = [task for _, task in self._tasks.values()] + ([self._looker] if self._looker else [])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def _look(self) -> None:
        while True:
            try:
                await self._follow_leads()
            except (Refused, TimeoutError) as error:
                log.debug("which jobs are led here is not known: %r", error)
            await asyncio.sleep(LOOK_S)

    async def _follow_leads(self) -> None:
        view: NodeView = await self._service.ask(_NO_KEY, DescribeNode())
        led = {bytes.fromhex(key) for key in view.masters}
        revisions = {_key_of(notice.name): notice.revision for notice in self._service.jobs()}
        for key, (revision, task) in list(self._tasks.items()):
            if key not in led or revisions.get(key, revision) != revision:
                task.cancel()
                del self._tasks[key]
        for key in led & revisions.keys():
            if key not in self._tasks:
                self._tasks[key] = revisions[key], asyncio.create_task(self._serve(key))

    async def _serve(self, key: bytes) -> None:
        """Ends when the job has no webhook; until it is cancelled otherwise."""
        while True:
            try:
                view: JobView = await self._service.ask(key, DescribeJob())
                if not messages.address(view):
                    return
                await self._send_all(key, view)
            except (Refused, TimeoutError) as error:
                log.debug("webhook of job %s waits: %r", key.hex(), error)
            except Exception:
                log.exception("webhook of job %s", key.hex())
            await asyncio.sleep(LOOK_S)

    async def _send_all(self, key: bytes, view: JobView) -> None:
        position = noted = view.delivered
        delivered, noted_s = noted, 0.0
        while True:
            while await self._pages.in_thread(lambda: self._service.results.lacks(key)) is not None:
                await asyncio.sleep(LOOK_S)
            records = await self._pages.in_thread(lambda: self._service.results.since(key, position, BATCH))  # noqa: B023
            for record in records:
                if messages.is_due(view, record):
                    await self._send(key, view, record)
                    delivered = record.index
                position = record.index
            if delivered > noted and (not records or time.monotonic() - noted_s >= NOTE_S):
                noted_s = time.monotonic()
                await self._service.ask(key, NoteDelivered(delivered))
                noted = delivered
            if not records:
                await self._service.published(key, position)

    async def _send(self, key: bytes, view: JobView, record: ResultRecord) -> None:
        """Tries until the receiver has taken it, or it is too old to be kept."""
        body = await self._pages.in_thread(lambda: messages.body(view.name, record))
        attempts = 0
        while not await self._attempt(view, record, body):
            attempts += 1
            self._failed += 1
            await asyncio.sleep(messages.retry_s(attempts) * random.uniform(0.75, 1.25))
            if record.index <= await self._pages.in_thread(lambda: self._service.results.dropped_index(key)):
                self._given_up += 1
                log.warning("webhook of job %s: result %d was never taken", view.name, record.index)
                return
        self._delivered += 1

    async def _attempt(self, view: JobView, record: ResultRecord, body: bytes) -> bool:
        url = messages.address(view)
        assert self._session is not None
        if not messages.allowed(url, self._options.webhook_hosts):
            log.warning("webhook of job %s: %s is not among the hosts of [security]", view.name, url)
            return False
        headers = messages.headers(
            view.name, record.index, int(time.time()), body, self._options.webhook_secret
        )
        async with self._sending:
            try:
                async with self._session.post(
                    url, data=body, headers=headers, allow_redirects=False
                ) as answer:
                    if 200 <= answer.status < 300:
                        return True
                    problem = f"status {answer.status}"
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
                problem = str(error) or type(error).__name__
        log.info("webhook of job %s: result %d was not taken: %s", view.name, record.index, problem)
        return False
