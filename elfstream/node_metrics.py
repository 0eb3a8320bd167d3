"""What `/metrics` shows of a node: plain numbers from its threads, read as they are. docs/API.md lists the names."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from agent.figures import SourceFigures
from cbt.budget import Budget
from elfstream.core_thread import CoreThread
from master.job_figures import JobFigures
from srt.driver import PeerLinks
from srt.stores import Stores

STARTED_S = time.time()


def of_threads(thread: CoreThread, stores: Stores, links: PeerLinks, budget: Budget) -> dict[str, Any]:
    """Of the core, the disk, the links and the memory."""
    peers = links.peers()
    sent = links.traffic.bytes_out + sum(peer.traffic.bytes_out for peer in peers)
    received = links.traffic.bytes_in + sum(peer.traffic.bytes_in for peer in peers)
    values: dict[str, Any] = {
        "start_time_seconds": STARTED_S,
        "memory_bytes": budget.used_bytes,
        "spilled_bytes_total": budget.spilled_bytes,
        "peers": len(peers),
        "link_held_bytes": links.held_bytes,
        "link_sent_bytes_total": sent,
        "link_received_bytes_total": received,
        "link_refused_total": dict(links.refusals.counts),
        "core_events_total": thread.handled,
        "core_busy_seconds_total": thread.busy_s,
        "core_backlog": thread.backlog,
        "core_late_seconds": thread.late_s,
        "core_use_ratio": thread.use,
        "disk_writes_total": stores.stored,
        "disk_syncs_total": stores.syncs,
        "disk_failures_total": stores.failed,
    }
    if budget.options.memory_max is not None:
        values["memory_max_bytes"] = budget.options.memory_max
    if budget.options.spill_max is not None:
        values["spill_max_bytes"] = budget.options.spill_max
    return values


def of_sources(sources: Iterable[SourceFigures]) -> dict[str, Any]:
    """Of the logs of an agent."""
    figures = list(sources)
    return {
        "read_bytes_total": {one.name: one.read_bytes for one in figures},
        "lines_total": {one.name: one.lines for one in figures},
        "lines_parsed_total": {one.name: one.lines - sum(one.rejected.values()) for one in figures},
        "lines_rejected_total": {
            (one.name, reason): count for one in figures for reason, count in one.rejected.items()
        },
        "lost_bytes_total": {one.name: one.gap_bytes for one in figures},
        "rotations_total": {one.name: one.rotations for one in figures},
        "files": {one.name: len(one.files) for one in figures},
        "files_waiting": {one.name: one.waiting_files for one in figures},
        "file_lag_bytes": {(one.name, file.path): file.lag_bytes for one in figures for file in one.files},
        "file_lag_seconds": {(one.name, file.path): file.lag_s for one in figures for file in one.files},
    }


def of_jobs(jobs: Iterable[JobFigures], wall_us: int) -> dict[str, Any]:
    """Of the jobs that this node leads. A job of which an agent has not begun has no lag; what is read to the end has
    none to show either, but 0."""
    led = list(jobs)
    return {
        "groups": {one.name: one.groups for one in led},
        "jobs_led": len(led),
        "job_window_lag_seconds": {
            one.name: max(wall_us - one.watermark_us, 0) / 1e6 for one in led if one.watermark_us is not None
        },
        "job_agents": {one.name: one.agents for one in led},
        "job_agents_missing": {one.name: one.missing for one in led},
        "job_lines_late_total": {one.name: one.late for one in led},
        "job_results_total": {one.name: one.results for one in led},
    }
