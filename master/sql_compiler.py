"""Queries to plans beside the event loop, and what a query will do, before it is run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from job.errors import JobError
from job.explain import SLOW_MARK, duration, explain
from job.plan import Plan, Schema
from job.settings import JobSpec
from job.sql import compile_sql
from master.job_views import columns_document, derived_document, innermost
from master.problems import Problem, problem_of_job


class SqlCompiler:
    """One thread that compiles; under the interpreter's lock a second one gains nothing."""

    def __init__(self, schemas: Callable[[], Mapping[str, Schema]], waiting_max: int, seconds: float) -> None:
        self._schemas, self._waiting_max, self._seconds = schemas, waiting_max, seconds
        self._thread = ThreadPoolExecutor(1, "sql")
        self._waiting = 0

    async def plan(self, spec: JobSpec) -> Plan:
        """Raises Problem."""
        if self._waiting >= self._waiting_max:
            raise Problem("busy", f"{self._waiting} queries wait to be compiled")
        self._waiting += 1
        loop = asyncio.get_running_loop()
        schemas, parameters = dict(self._schemas()), dict(spec.parameters)
        work = loop.run_in_executor(self._thread, compile_sql, spec.sql, schemas, parameters)
        work.add_done_callback(self._done)
        try:
            return await asyncio.wait_for(asyncio.shield(work), self._seconds)
        except JobError as error:
            raise problem_of_job(error) from None
        except TimeoutError:
            raise Problem("timeout", f"the query was not compiled within {self._seconds:g} s", field="sql") from None

    def _done(self, work: asyncio.Future[Plan]) -> None:
        self._waiting -= 1
        if not work.cancelled():
            work.exception()  # of a query that nobody waits for any more

    def close(self) -> None:
        """Drops what waits; a query that is being compiled is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def plan_document(spec: JobSpec, plan: Plan) -> dict[str, Any]:
    """What a job will do."""
    return {
        "valid": True,
        "source": innermost(plan).source,
        "columns": columns_document(plan),
        "plan": explain(plan),
        "spark_sql": plan.to_spark_sql(),
        "settings": spec.settings.shown(),
        "warnings": warnings(spec, plan),
        "errors": [],
    }


def derived_job_document(spec: JobSpec) -> dict[str, Any]:
    """What a job without a plan would be."""
    assert spec.derived is not None, "it has no plan"
    columns = derived_document(spec.derived)["columns"]
    return {"valid": True, "columns": columns, "settings": spec.settings.shown(), "warnings": [], "errors": []}


def problem_document(problem: Problem, sql: object) -> dict[str, Any]:
    """Why there is no such plan."""
    error: dict[str, Any] = {
        "detail": problem.detail,
        "field": problem.field or None,
        "position": problem.position,
        "line": None,
        "column": None,
        "advice": problem.advice or None,
    }
    if problem.position is not None and isinstance(sql, str):
        before = sql[: problem.position]
        error["line"] = before.count("\n") + 1
        error["column"] = len(before) - (before.rfind("\n") + 1) + 1
    return {"valid": False, "warnings": [], "errors": [error]}


def warnings(spec: JobSpec, plan: Plan) -> list[str]:
    """What is allowed and seldom meant."""
    settings, found = spec.settings, []
    window = plan.window
    if window is None:
        found.append(
            "Without a window there is one result since the job began; it becomes final when the job is stopped with drain."
        )
    else:
        if window.slide_us < settings.emit_us:
            found.append(
                f"A window begins every {duration(window.slide_us)}, but agents send only every "
                f"{duration(settings.emit_us)}: set emit lower to see windows sooner."
            )
        if settings.retain_us < window.size_us:
            found.append(
                f"Results are kept for {duration(settings.retain_us)}, less than one window of {duration(window.size_us)}."
            )
        if plan.limit is None and plan.keys:
            found.append("Without LIMIT a window has a row for each group, however many there are.")
    if settings.lateness_us > settings.retain_us:
        found.append("Late lines are waited for longer than results are kept: lateness is above retain.")
    if SLOW_MARK in explain(plan):
        found.append("Some functions run outside the kernels, once per distinct value: the plan marks them [slow].")
    return found
