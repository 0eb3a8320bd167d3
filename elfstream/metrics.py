"""The counters of a node, as Prometheus reads them. The daemon gives plain numbers; docs/API.md lists the names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from master.exposition import bounded, head, series

PREFIX = "elfstream_"
Value = float | Mapping[str, float] | Mapping[tuple[str, ...], float]
"""A number; of a metric with labels, numbers by the label's text, or by the texts of all labels in their order."""


class Metric(NamedTuple):
    """Without the prefix. Counters only grow while the process lives, and end in _total."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


def _counter(name: str, help: str, *labels: str) -> Metric:
    return Metric(name, "counter", labels, help)


def _gauge(name: str, help: str, *labels: str) -> Metric:
    return Metric(name, "gauge", labels, help)


METRICS = (
    _gauge("build_info", "1, with the version of elfstream.", "version"),
    _gauge("config_info", "1, with the hash of the configuration in force.", "hash"),
    _gauge("start_time_seconds", "When the process began, seconds since 1970."),
    _gauge("ready", "1 if the node can do its work."),
    _counter("read_bytes_total", "Bytes of logs that were read.", "source"),
    _counter("lines_total", "Lines that were read.", "source"),
    _counter("lines_parsed_total", "Lines that are records.", "source"),
    _counter("lines_rejected_total", "Lines that do not fit the format.", "source", "reason"),
    _counter("lost_bytes_total", "Bytes of logs that were gone before they were read.", "source"),
    _counter("rotations_total", "Files that were rotated or truncated.", "source"),
    _gauge("files", "Files that are followed.", "source"),
    _gauge("files_waiting", "Files that are not read yet, for too many others are.", "source"),
    _gauge("file_lag_bytes", "Bytes of a file that are not read yet.", "source", "file"),
    _gauge("file_lag_seconds", "Age of the oldest line of a file that is not read yet.", "source", "file"),
    _gauge("groups", "Groups in open panes of a job that this node leads; those not merged yet count apart.", "job"),
    _gauge("memory_bytes", "What counts towards the cap of memory."),
    _gauge("memory_max_bytes", "The cap."),
    _counter("spilled_bytes_total", "Bytes of blocks that were written to disk, for the cap was reached."),
    _gauge("spill_max_bytes", "Most that may be on disk at a time."),
    _gauge("peers", "Links to other nodes."),
    _gauge("link_held_bytes", "Messages that wait for a peer or for the core; they count towards the cap of memory."),
    _counter("link_sent_bytes_total", "Bytes sent to other nodes."),
    _counter("link_received_bytes_total", "Bytes received from other nodes."),
    _counter("link_refused_total",
             "Links and messages of other nodes that were refused, and TLS handshakes of anybody that failed.", "reason"),
    _counter("core_events_total", "Events that the core handled."),
    _counter("core_busy_seconds_total", "Seconds that the core spent on them."),
    _gauge("core_backlog", "Events that wait for the core."),
    _gauge("core_late_seconds", "How long events wait for the core, but frames; beyond 0.25 new jobs are refused."),
    _gauge("core_use_ratio", "Part of its time that the core works, frames apart; beyond 0.6 new jobs are refused."),
    _counter("disk_writes_total", "Writes that are durable."),
    _counter("disk_syncs_total", "Times that the disk was told to keep what was written."),
    _counter("disk_failures_total", "Writes that failed."),
    _gauge("jobs_led", "Jobs that this node leads."),
    _gauge("job_window_lag_seconds", "Clock less watermark of a job that this node leads, if all agents have begun.", "job"),
    _gauge("job_agents", "Agents of a job that this node leads.", "job"),
    _gauge("job_agents_missing", "Those of them that have not begun.", "job"),
    _counter("job_lines_late_total", "Lines that came too late for their window.", "job"),
    _counter("job_results_total", "Results that were published.", "job"),
    _counter("http_requests_total", "Requests that were answered.", "status"),
    _gauge("http_requests_active", "Requests that are being answered, streams apart."),
    _gauge("http_streams_active", "Streams of results that are open."),
    _counter("http_readers_dropped_total", "Readers that took nothing for too long."),
    _counter("webhook_deliveries_total", "Attempts to call a webhook.", "outcome"),
    _counter("webhook_given_up_total", "Results that no webhook took before they were dropped."),
)
"""In the order they are shown."""
_KNOWN = {metric.name for metric in METRICS}


def render(values: Mapping[str, Value]) -> str:
    """The text for `/metrics`; what is not given is not shown. O(series), at most 1000 of each metric. Raises KeyError for a
    name that is not in METRICS, ValueError for labels that are not the metric's."""
    unknown = values.keys() - _KNOWN
    if unknown:
        raise KeyError(f"no metric is called {', '.join(sorted(unknown))}")
    parts, left_out = [], {}
    for metric in METRICS:
        if metric.name not in values:
            continue
        value, name = values[metric.name], PREFIX + metric.name
        parts.append(head(name, metric.kind, metric.help))
        if isinstance(value, Mapping):
            every = (((key,) if isinstance(key, str) else key, number) for key, number in value.items())
            lines, left = bounded(name, metric.labels, every)
            parts.append(lines)
            if left:
                left_out[metric.name] = left
        elif metric.labels:
            raise ValueError(f"{metric.name} has the labels {', '.join(metric.labels)}")
        else:
            parts.append(series(name, {}, value))
    name = PREFIX + "series_left_out"
    parts.append(head(name, "gauge", "Series of a metric beyond the first thousand."))
    parts += [series(name, {"metric": PREFIX + metric}, count) for metric, count in left_out.items()]
    return "".join(parts)
