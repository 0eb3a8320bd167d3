"""Jobs of a fleet as tables of a Spark session: `jobs.NAME` in SQL, batch or stream. docs/SPARK.md has recipes."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from master.asking import URL
from master.spark.errors import NoJobError
from master.spark.fleet_reader import FleetReader
from master.spark.job_names import unknown_tables, view_of, with_views
from master.spark.results_source import NAME, asked, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WATERMARK = "10 minutes"


def jobs_catalog(session: SparkSession, url: str = URL, **options: str) -> JobsCatalog:
    """The jobs of the fleet at `url`, several with commas. `options` are those of the source of results: `token`,
    `tokenFile`, `cacert`, `cert`, `key`. Nothing is asked yet. Raises ResultOptionError."""
    return JobsCatalog(session, {"url": url, **options})


class JobsCatalog:
    """Tables are made of the jobs as they are when they are asked for."""

    def __init__(self, session: SparkSession, options: Mapping[str, str]) -> None:
        self.session, self._options = session, dict(options)
        self.address = asked({**self._options, "job": "any"}).address
        register(session)

    def names(self) -> list[str]:
        """Of all jobs, sorted. Raises FleetReadError."""
        return sorted(FleetReader(self.address).names())

    def table(self, name: str, start: datetime | None = None, end: datetime | None = None, **options: str) -> DataFrame:
        """Windows of a job that start in [start, end), each in its last final edition."""
        more = {"from": start, "to": end}
        given = {key: moment.isoformat() for key, moment in more.items() if moment is not None}
        return self._loaded(self.session.read, name, {**given, **options})

    def stream(self, name: str, watermark: str | None = WATERMARK, **options: str) -> DataFrame:
        """Final results of a job as they are published, each once, with a watermark on `_start`; None: with none."""
        frame = self._loaded(self.session.readStream, name, options)
        return frame if watermark is None else frame.withWatermark("_start", watermark)

    def _loaded(self, reader: Any, name: str, options: Mapping[str, str]) -> DataFrame:
        frame: DataFrame = reader.format(NAME).options(**self._options, **options, job=name).load()
        return frame

    def sql(
        self,
        text: str,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        continuous: bool = False,
        watermark: str | None = WATERMARK,
    ) -> DataFrame:
        """Spark's answer to a query over `jobs.NAME`; a name with other than letters, digits and _ in backquotes. `start`,
        `end` and `watermark` are as above. Raises NoJobError, FleetReadError, and what Spark raises."""
        changed, names = self.resolved(text)
        for name in names:
            frame = self.stream(name, watermark) if continuous else self.table(name, start, end)
            frame.createOrReplaceTempView(view_of(name))
        return self.session.sql(changed)

    def resolved(self, text: str) -> tuple[str, list[str]]:
        """The query over views, and the jobs in it. Raises NoJobError, FleetReadError."""
        there = self.names()
        is_there = set(there).__contains__
        unknown = unknown_tables(text, is_there)
        if unknown:
            raise NoJobError(_unknown(unknown[0], there))
        changed, names = with_views(text, is_there)
        if not names:
            raise NoJobError(f"the query names no job: write FROM jobs.NAME; there are {', '.join(there[:8]) or 'none yet'}")
        return changed, names


def _unknown(name: str, there: list[str]) -> str:
    near = difflib.get_close_matches(name, there, n=1, cutoff=0.5)
    if near:
        quoted = near[0] if near[0].replace("_", "a").isalnum() else f"`{near[0]}`"
        return f"there is no job {name}; did you mean jobs.{quoted}?"
    return f"there is no job {name}; there are {', '.join(there[:8]) or 'none yet'}"
