"""A job of a fleet in virtual time, with the methods of `elf.Job` and what tests want besides."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from elfstream.remote_results import WindowResult, window_result
from elfstream.simulated.machine import Machine
from elfstream.simulated.machines import Machines, api_error
from job.errors import JobError
from job.plan import Plan
from job.settings import JobSpec
from job.sql import compile_sql
from master import job_documents as documents
from master.job_views import job_document, names_of, revision_document
from master.problems import Problem, problem_of_job
from master.requests import (
    ChangeJob,
    DescribeJob,
    ForgetAgent,
    JobView,
    RecoverJob,
    RemoveJob,
    ResultRecord,
    StopJob,
    SubmitJob,
)
from master.result_documents import record_json
from srt.ids import job_key

TAKE_PART_S = 15.0
ALL = 1 << 31
Document = dict[str, Any]
"""As docs/API.md shows it."""


class FleetJob:
    """A job. Methods raise ApiError as those of `elf.Job` do, UnreachableError when no node is up. Each takes as much
    virtual time as its messages: some milliseconds, and up to 15 s while there is no master."""

    def __init__(self, machines: Machines, name: str) -> None:
        self.name = name
        self._machines, self._key = machines, job_key(name)

    # its life

    def show(self) -> Document:
        """Settings, state, coverage, watermark, ..."""
        return self._shown(self._view())

    def changes(self) -> list[Document]:
        """All its revisions."""
        return [revision_document(one) for one in self._view().revisions]

    def change(
        self,
        *,
        sql: str | None = None,
        settings: Mapping[str, object] | None = None,
        parameters: Mapping[str, object] | None = None,
        start: datetime | None = None,
        revision: int | None = None,
    ) -> Document:
        """A new revision; what is not given stays, None as the value of a setting takes its default. `revision` is the one
        that is changed (default: the current one): if there is another by now ApiError says stale."""
        given = {"sql": sql, "settings": settings, "parameters": parameters}
        patch = {name: value for name, value in given.items() if value is not None}
        view = self._view()
        try:
            wanted = documents.etag(view.revision if revision is None else revision)
            expected = documents.expected_revision(wanted, view.revision)
            merged = documents.merged(documents.changeable(documents.current(view)), patch)
            spec, plan = self._compiled(merged)
        except Problem as problem:
            raise api_error(problem) from None
        start_us = None if start is None else documents.moment(start.isoformat(), "start", 0)
        return self._shown(self._machines.ask(self._key, ChangeJob(spec, plan, expected, start_us)))

    def stop(self, *, drain: bool = False) -> Document:
        """No agent reads for it any more; with `drain` they read to the end as of now, and all windows become final."""
        return self._shown(self._machines.ask(self._key, StopJob(drain)))

    def remove(self) -> None:
        """With its results."""
        self._machines.ask(self._key, RemoveJob())

    def forget(self, agent: str) -> Document:
        """Wait for this agent no longer."""
        return self._shown(self._machines.ask(self._key, ForgetAgent(agent)))

    def recover(self, node: str) -> Document:
        """Go on from the log of that node alone: a majority of the members is lost for good."""
        try:
            return self._shown(self._machines.ask_at(self._machines.by_name[node], self._key, RecoverJob()))
        except Problem as problem:
            raise api_error(problem, node) from None

    @property
    def master(self) -> str:
        """The name of the node that leads it."""
        name: str = self._machines.at_master(self._key, lambda machine: machine.config.name)
        return name

    # results

    def results(
        self,
        start: datetime | None = None,
        end: datetime | None = None,
        *,
        status: str | None = None,
        all: bool = False,
    ) -> list[WindowResult]:
        """Windows that start in [start, end) in order of time, the latest edition of each, or with `all` every one. Rows
        are those that `elf.query` gives."""
        edges = [None if edge is None else documents.moment(edge.isoformat(), "", 0) for edge in (start, end)]

        def read(machine: Machine) -> list[ResultRecord]:
            return machine.results.between(
                self._key, *edges, status=status, editions=all, after=None, limit=ALL
            )

        return [_result(record) for record in self._read(read)]

    def finals(self) -> list[WindowResult]:
        """The windows that are final, in order of time."""
        return [result for result in self.results() if result.status == "final"]

    def published(self, after: int = 0) -> list[WindowResult]:
        """Everything that was published behind that id, in that order: what `elf.Job.watch` yields."""
        return [
            _result(one) for one in self._read(lambda machine: machine.results.since(self._key, after, ALL))
        ]

    def _read(self, read: Any) -> list[ResultRecord]:
        """At the master, or at another member while the master still gets what was before its time."""

        def work(machine: Machine) -> list[ResultRecord]:
            view: JobView = self._machines.ask_at(machine, self._key, DescribeJob())
            group = {member.id for member in view.group}
            for member in (machine, *self._machines.main_part()):
                core = member.core
                if core is not None and core.ref.id in group and member.results.lacks(self._key) is None:
                    records: list[ResultRecord] = read(member)
                    return records
            raise Problem("busy", "the results are still being copied to the master")

        found: list[ResultRecord] = self._machines.at_master(self._key, work)
        return found

    # what they share

    def submit(self, body: Mapping[str, object]) -> None:
        """Makes it, and waits until all agents that are up take part."""
        try:
            spec, plan = self._compiled(dict(body))
        except Problem as problem:
            raise api_error(problem) from None
        self._machines.ask(self._key, SubmitJob(spec, plan))
        self._machines.wait(lambda: self._known(plan), TAKE_PART_S)

    def _known(self, plan: Plan) -> bool:
        """Whether the root counts on all agents that read its source and can speak with it."""
        part = self._machines.main_part()
        leading = [core for machine in part if (core := machine.core) and core.leads(self._key)]
        if not leading:
            return False
        roster = leading[0].masters.root(self._key).committed.roster
        return all(
            roster.get(core.agent.journal.journal_id)
            for machine in part
            if (core := machine.core) and core.agent and _source(plan) in machine.sources.by_name
        )

    def _compiled(self, body: dict[str, Any]) -> tuple[JobSpec, Plan]:
        """Raises Problem."""
        spec = documents.spec_of(self.name, body)
        if spec.settings.webhook:
            raise Problem("invalid", "a fleet in virtual time sends no webhooks", field="settings.webhook")
        try:
            return spec, compile_sql(spec.sql, self._machines.schemas(), dict(spec.parameters))
        except JobError as error:
            raise problem_of_job(error) from None

    def _view(self) -> JobView:
        view: JobView = self._machines.ask(self._key, DescribeJob())
        return view

    def _shown(self, view: JobView) -> Document:
        return job_document(view, names_of(self._machines.notices()), self._machines.world.wall_us)


def _source(plan: Plan) -> str:
    while plan.inner is not None:
        plan = plan.inner
    return plan.source


def _result(record: ResultRecord) -> WindowResult:
    return window_result(msgspec.json.decode(record_json(record)))
