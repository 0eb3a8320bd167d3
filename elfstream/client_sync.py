"""A fleet from Python, without asyncio: `with elf.connect(url) as fleet: ...`. The client of asyncio runs in a thread."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from datetime import datetime
from types import TracebackType
from typing import Any, TypeVar

from elfstream.backfilled import NOTHING_PUT, BackfillScope, bodies, put_in_all
from elfstream.client import PATIENCE_S, AsyncClient, AsyncJob, Document, connect_async
from elfstream.remote_results import WindowResult

_T = TypeVar("_T")


def connect(
    url: str | Sequence[str],
    *,
    token: str | None = None,
    tls: ssl.SSLContext | None = None,
    patience_s: float = PATIENCE_S,
) -> Client:
    """A client of the fleet that the nodes at `url` (one or several) belong to; close it, or use it in `with`."""
    return Client(connect_async(url, token=token, tls=tls, patience_s=patience_s))


class _Loop:
    """A loop in a thread, for calls from others."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="elfstream client", daemon=True)
        self._closed = False
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Raises CancelledError when the loop is closed meanwhile."""
        if self._closed:
            work.close()
            raise CancelledError
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def each(self, items: AsyncIterator[_T]) -> Iterator[_T]:
        async def following() -> tuple[_T] | None:
            async for item in items:
                return (item,)
            return None

        try:
            while (found := self.run(following())) is not None:
                yield found[0]
        except CancelledError:
            if not self._closed:
                raise
        finally:
            if not self._closed:
                self.run(items.aclose())  # type: ignore[attr-defined]

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Ends what still runs in it, in whichever thread that is waited for, then runs `last`."""
        if self._closed:
            last.close()
            return
        self._closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._end(last))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    @staticmethod
    async def _end(last: Coroutine[Any, Any, None]) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await last


class Client:
    """As AsyncClient, with plain calls. Any thread."""

    def __init__(self, client: AsyncClient) -> None:
        self._client, self._loop = client, _Loop()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the thread; a watcher in another one ends, too."""
        self._loop.close(self._client.close())

    def submit(
        self,
        name: str,
        sql: str,
        *,
        settings: Mapping[str, object] | None = None,
        parameters: Mapping[str, object] | None = None,
    ) -> Job:
        """Makes a job; the same once more is no error."""
        self._loop.run(self._client.submit(name, sql, settings=settings, parameters=parameters))
        return self.job(name)

    def submit_derived(
        self,
        name: str,
        columns: Iterable[tuple[str, str]],
        *,
        size: str | None = None,
        text: str = "",
        settings: Mapping[str, object] | None = None,
    ) -> Job:
        """Makes a job whose windows all come by `put_windows`; see AsyncClient.submit_derived."""
        self._loop.run(self._client.submit_derived(name, columns, size=size, text=text, settings=settings))
        return self.job(name)

    def job(self, name: str) -> Job:
        """The job of that name, whether it is there or not."""
        return Job(self._client.job(name), self._loop)

    def jobs(self) -> list[Document]:
        """All jobs, in short."""
        return self._loop.run(self._client.jobs())

    def validate(
        self,
        sql: str,
        *,
        settings: Mapping[str, object] | None = None,
        parameters: Mapping[str, object] | None = None,
    ) -> Document:
        """What a job would do, or what is wrong with it and where."""
        return self._loop.run(self._client.validate(sql, settings=settings, parameters=parameters))

    def nodes(self) -> list[Document]:
        return self._loop.run(self._client.nodes())

    def node(self, name: str) -> Document:
        """One node, from itself; by its name, address or id."""
        return self._loop.run(self._client.node(name))

    def sources(self) -> list[Document]:
        return self._loop.run(self._client.sources())


class Job:
    """As AsyncJob, with plain calls."""

    def __init__(self, job: AsyncJob, loop: _Loop) -> None:
        self._job, self._loop = job, loop

    @property
    def name(self) -> str:
        return self._job.name

    def show(self) -> Document:
        """Settings, state, coverage, watermark, ..."""
        return self._loop.run(self._job.show())

    def changes(self) -> list[Document]:
        """All its revisions."""
        return self._loop.run(self._job.changes())

    def change(
        self,
        *,
        sql: str | None = None,
        settings: Mapping[str, object] | None = None,
        parameters: Mapping[str, object] | None = None,
        start: datetime | None = None,
        revision: int | None = None,
    ) -> Document:
        """A new revision; see AsyncJob.change."""
        return self._loop.run(
            self._job.change(
                sql=sql, settings=settings, parameters=parameters, start=start, revision=revision
            )
        )

    def validate(self, patch: Mapping[str, object]) -> Document:
        """What a change would make of it, or what is wrong with that; `patch` has `sql`, `settings`, `parameters`."""
        return self._loop.run(self._job.validate(patch))

    def stop(self, *, drain: bool = False) -> Document:
        """No agent reads for it any more; with `drain` they read to the end as of now, and all windows become final."""
        return self._loop.run(self._job.stop(drain=drain))

    def remove(self) -> None:
        """With its results."""
        self._loop.run(self._job.remove())

    def forget(self, agent: str) -> Document:
        """Wait for this agent no longer."""
        return self._loop.run(self._job.forget(agent))

    def recover(self, confirm: str) -> Document:
        """At the one node that the client was given: go on from its log alone; see AsyncJob.recover."""
        return self._loop.run(self._job.recover(confirm))

    def tree(self, depth: int | None = None) -> Document:
        """Its reducer tree, from the root."""
        return self._loop.run(self._job.tree(depth))

    def backfill_scope(
        self, start: datetime | None = None, end: datetime | None = None, revision: int | None = None
    ) -> BackfillScope:
        """What a backfill of windows that start in [start, end) has to compute; see AsyncJob.backfill_scope."""
        return self._loop.run(self._job.backfill_scope(start, end, revision))

    def put_windows(self, windows: Iterable[Mapping[str, Any] | bytes]) -> dict[str, int]:
        """Makes windows computed elsewhere results of the job; see AsyncJob.put_windows. `windows` is run through here,
        between requests, so it may ask the same client."""
        told = dict(NOTHING_PUT)
        for body in bodies(windows):
            told = put_in_all(told, self._loop.run(self._job.put_body(body)))
        return told

    def results(
        self,
        start: datetime | None = None,
        end: datetime | None = None,
        *,
        status: str | None = None,
        all: bool = False,
        rows: int | None = None,
        limit: int | None = None,
    ) -> Iterator[WindowResult]:
        """Windows that start in [start, end) in order of time, at most `limit`; the latest edition of each, or with `all`
        every one."""
        return self._loop.each(
            self._job.results(start, end, status=status, all=all, rows=rows, limit=limit)
        )

    def watch(
        self, *, after: int | None = None, status: str | None = None, rows: int | None = None
    ) -> Iterator[WindowResult]:
        """Results as they are published, each once, through restarts and takeovers; see AsyncJob.watch."""
        return self._loop.each(self._job.watch(after=after, status=status, rows=rows))
