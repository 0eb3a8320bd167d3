"""Final results of a live job as a Spark table: `format("elfstream_results")`, batch and stream.

Batch: each window that starts in [`from`, `to`), in its last final edition, as of the read; where they are more than a
page, several tasks share them (result_ranges.py). Stream: each final result once, in the order of publication; a window that
changes comes again as its next edition (`_revision`). An offset is the id of a result in the job's log, the same at every
node, so a query goes on from its checkpoint through restarts and takeovers.

Options: `job`; `url` (several with commas), `tokenFile` or `token`, `cacert`, `cert`, `key` (files that executors have as
well); `from`, `to` (RFC 3339); `partitions`: how many tasks share a batch at most; for streams `startingFrom`: earliest,
latest, or an id to go on behind; `windows` true: a row a result, with its `_status` and without the job's columns, also for
results without rows and, in streams, withdrawn ones; `binary`: columns (with commas) that hold base64, such as sketches, as
bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from job.times import MICROSECOND, zoned
from master.asking import URL
from master.spark.errors import FleetReadError, ResultOptionError
from master.spark.fleet_reader import FleetAddress, FleetReader, JobDocument, ResultDocument
from master.spark.result_ranges import Range, ranges
from master.spark.result_rows import Columns, job_columns, result_batch, result_schema
from master.spark.session import PUSHDOWN

NAME = "elfstream_results"
OPTIONS = (
    "job", "url", "token", "tokenFile", "cacert", "cert", "key",
    "from", "to", "windows", "binary", "startingFrom", "partitions",
)  # fmt: skip
PARTITIONS, PARTITIONS_MAX = 8, 1000


class Asked(NamedTuple):
    """The options of one `load`."""

    address: FleetAddress
    job: str
    start: datetime | None
    end: datetime | None
    starting_from: str | int
    windows: bool = False
    binary: tuple[str, ...] = ()
    partitions: int = PARTITIONS


def asked(options: Mapping[str, str]) -> Asked:
    """Reads the token, where one is named. Raises ResultOptionError."""
    given = {name.lower(): value for name, value in options.items() if value}
    known = {name.lower(): name for name in OPTIONS}
    for name in given.keys() - known.keys() - {"path"}:
        raise ResultOptionError(f"option {name}: there is none of this name, only {', '.join(OPTIONS)}")
    job = given.get("job") or given.get("path")
    if job is None:
        raise ResultOptionError('option job: name the job, as in .option("job", "hot")')
    urls = tuple(part for part in (one.strip() for one in given.get("url", URL).split(",")) if part)
    token = given.get("token")
    if "tokenfile" in given:
        try:
            token = Path(given["tokenfile"]).read_text("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "a token has letters and digits only"
            raise ResultOptionError(f"option tokenFile: {given['tokenfile']}: {why}") from None
    if token is not None and not (token.isascii() and token.isprintable()):
        raise ResultOptionError("option token: a token is one line of letters and digits")
    files = {name: given.get(name) for name in ("cacert", "cert", "key")}
    start, end = (_moment(name, given.get(name)) for name in ("from", "to"))
    windows = given.get("windows", "false").lower()
    if windows not in ("true", "false"):
        raise ResultOptionError(f"option windows: {windows!r} is neither true nor false")
    starting_from = _starting_from(given.get("startingfrom", "earliest"))
    binary = tuple(part for part in (one.strip() for one in given.get("binary", "").split(",")) if part)
    partitions = _partitions(given.get("partitions", str(PARTITIONS)))
    address = FleetAddress(urls, token, **files)
    return Asked(address, job, start, end, starting_from, windows == "true", binary, partitions)


def _moment(name: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ResultOptionError(f"option {name}: {text!r} is no time; write 2025-11-28T19:30:00Z") from None
    return zoned(moment)


def _starting_from(text: str) -> str | int:
    if text in ("earliest", "latest"):
        return text
    if re.fullmatch(r"[0-9]{1,18}", text, re.ASCII):
        return int(text)
    raise ResultOptionError(f"option startingFrom: {text!r} is neither earliest nor latest nor the id of a result")


def _partitions(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,4}", text, re.ASCII) and 1 <= int(text) <= PARTITIONS_MAX:
        return int(text)
    raise ResultOptionError(f"option partitions: {text!r} is no number from 1 to {PARTITIONS_MAX}")


def register(session: Any) -> None:
    """Makes the source known to a session, and switches on that Python sources are told conditions."""
    session.conf.set(PUSHDOWN, "true")
    session.dataSource.register(ResultSource)


class ResultSource(DataSource):
    """One `load`. Raises ResultOptionError, FleetReadError when it is planned."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._asked = asked(options)
        self._document: JobDocument | None = None

    @classmethod
    def name(cls) -> str:
        return NAME

    def _job(self) -> JobDocument:
        if self._document is None:
            self._document = FleetReader(self._asked.address).job(self._asked.job)
        return self._document

    def schema(self) -> StructType:
        return from_arrow_schema(result_schema(self._columns()))

    def _columns(self) -> Columns | None:
        return None if self._asked.windows else job_columns(self._job(), self._asked.binary)

    def reader(self, schema: StructType) -> ResultReader:
        return ResultReader(self._asked, self._columns())

    def streamReader(self, schema: StructType) -> ResultStreamReader:  # noqa: N802 - Spark's name
        return ResultStreamReader(self._asked, self._columns(), self._job()["created"])


class Starts(InputPartition):
    """Task `number`: windows that start in [start, end)."""

    def __init__(self, number: int, range: Range) -> None:
        self.number, self.range = number, range


class ResultReader(DataSourceReader):
    """Each window is in one task, whenever it is published: the ranges of the tasks are made before any of them reads."""

    def __init__(self, asked: Asked, columns: Columns | None) -> None:
        self._asked, self._columns = asked, columns

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Conditions on the start of the window say which windows are asked for. Spark looks at all of them again."""
        names = {"_start", *(here for here, _, type in self._columns or () if str(type).startswith("STRUCT"))}
        start, end = self._asked.start, self._asked.end
        for one in filters:
            path = getattr(one, "attribute", ())
            if path not in {("_start",), *((name, "start") for name in names)}:
                continue
            low, high = bounds(one)
            start = max((moment for moment in (start, low) if moment is not None), default=None)
            end = min((moment for moment in (end, high) if moment is not None), default=None)
        self._asked = self._asked._replace(start=start, end=end)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        return [Starts(number, range) for number, range in enumerate(self._ranges())]

    def _ranges(self) -> list[Range]:
        asked, fleet = self._asked, FleetReader(self._asked.address)
        range = asked.start, asked.end
        if asked.partitions == 1:
            return [range]
        end = _text(asked.end)
        oldest, are_more = fleet.starts(asked.job, _text(asked.start), end)

        def behind(moment: datetime) -> datetime | None:
            return next(iter(fleet.starts(asked.job, _text(moment), end, 1)[0]), None)

        return ranges(oldest, behind, range, asked.partitions) if are_more else [range]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Starts)
        asked, schema = self._asked, result_schema(self._columns)
        fleet = FleetReader(asked.address.turned(partition.number))
        start, end = map(_text, partition.range)
        withdrawn = {
            _window(document): document["revision"] for document in fleet.windows(asked.job, "withdrawn", start, end, 0)
        }
        for document in fleet.windows(asked.job, "final", start, end, 0 if self._columns is None else None):
            is_ours = document["window"] is not None or partition.number == 0  # an endless window is in every range
            if is_ours and withdrawn.get(_window(document), 0) < document["revision"]:
                yield _batch(fleet, document, self._columns, schema)


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _batch(fleet: FleetReader, document: ResultDocument, columns: Columns | None, schema: Any) -> Any:
    """Raises FleetReadError that says where the result came from."""
    try:
        return result_batch(document, columns, schema)
    except FleetReadError as error:
        raise FleetReadError(f"{fleet.url}: {error}") from None


def bounds(filter: Filter) -> tuple[datetime | None, datetime | None]:
    """[start, end) of what a condition on a time lets pass, None where it does not say."""
    value = getattr(filter, "value", None)
    if not isinstance(value, datetime):
        return None, None
    value = value if value.tzinfo else value.astimezone(UTC)
    if isinstance(filter, GreaterThan):
        return value + MICROSECOND, None
    if isinstance(filter, GreaterThanOrEqual):
        return value, None
    if isinstance(filter, LessThan):
        return None, value
    if isinstance(filter, LessThanOrEqual):
        return None, value + MICROSECOND
    return (value, value + MICROSECOND) if isinstance(filter, EqualTo) else (None, None)


def _window(document: ResultDocument) -> tuple[datetime, datetime] | None:
    window = document["window"]
    return None if window is None else (window["start"], window["end"])


class Between(InputPartition):
    """Results with ids in (after, upto]."""

    def __init__(self, after: int, upto: int) -> None:
        self.after, self.upto = after, upto


class ResultStreamReader(DataSourceStreamReader):
    """Offsets are {"created", "id"}: when the job was made, and the id of the last result that was read."""

    def __init__(self, asked: Asked, columns: Columns | None, created: str) -> None:
        self._asked, self._columns, self._created = asked, columns, created

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        where = self._asked.starting_from
        if where == "latest":
            where = FleetReader(self._asked.address).last_id(self._asked.job)
        return {"created": self._created, "id": 0 if where == "earliest" else where}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: N802 - Spark's name
        fleet, name = FleetReader(self._asked.address), self._asked.job
        created = fleet.job(name)["created"]
        if created != start["created"]:
            raise FleetReadError(
                f"the job {name} was made anew at {created}, and this query has read one that was made at "
                f"{start['created']}: its results count from the beginning, so start the query with a new checkpoint"
            )
        return {"created": created, "id": max(fleet.last_id(name), start["id"])}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [Between(start["id"], end["id"])] if end["id"] > start["id"] else []

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Between)
        asked, schema = self._asked, result_schema(self._columns)
        fleet = FleetReader(asked.address)
        for document in fleet.published(asked.job, partition.after, partition.upto):
            wanted = ("final",) if self._columns is not None else ("final", "withdrawn")
            if document["status"] in wanted and _starts_in(document, asked.start, asked.end):
                yield _batch(fleet, document, self._columns, schema)


def _starts_in(document: ResultDocument, start: datetime | None, end: datetime | None) -> bool:
    if document["window"] is None or (start is None and end is None):
        return True
    moment = document["window"]["start"]
    return (start is None or moment >= start) and (end is None or moment < end)
