"""Real logs against numbers counted by a script that shares nothing with this project: equal, not close."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import elfstream as elf

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
COMBINED_PLUS = '%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" "%{Extra}i"'
WCOOKIE = '%h %l %u [%{%d/%b/%Y:%H:%M:%S}t] "%r" %>s %b "%{Referer}i" "%{User-Agent}i" %{ms}T'
SETS = {
    "apache_semicomplete_2015": ("apache_semicomplete_2015.log.zst", "combined"),
    "basjes_formspam_2015": ("basjes_formspam_2015.log.zst", "combined"),
    "buttercup_2019": ("buttercup_2019/*.zst", WCOOKIE),
    "logstalgia_2009": ("logstalgia_2009.log.zst", COMBINED_PLUS),
    "nasa_aug95_5k_altered": ("nasa_aug95_5k_altered.log.zst", "common"),
    "nginx_scanned_2024": ("nginx_scanned_2024/*.zst", "combined"),
    "shop_zanbil_2019": ("shop_zanbil_2019.log.zst", COMBINED_PLUS),
}
BY_NAME = ("combined", "common")
UNLIKE = {"nasa_aug95_5k_altered": 2, "nginx_scanned_2024": 2}
"""Lines such as `GET / HTTP/V1.0`: three words and more of which the last is no protocol. The truth reads a method and a
target with blanks in them; here, by the rules for odd lines, they are malformed and have neither."""
TOPS = {
    "top20_paths_by_count": ("path", "n"),
    "top20_paths_by_bytes": ("path", "b"),
    "top20_targets_by_count": ("uri", "n"),
    "top20_requests_by_count": ("request", "n"),
    "top20_clients_by_count": ("remote_addr", "n"),
    "top20_clients_by_bytes": ("remote_addr", "b"),
}

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the log sets of ../shared/data are not here")


@cache
def truth(name: str) -> dict[str, Any]:
    return json.loads((DATA / "truth" / f"{name}.json").read_text())["strict"]  # type: ignore[no-any-return]


def ask(name: str, sql: str, format: str | None = None, threads: int = 1) -> elf.Result:
    files, its_format = SETS[name]
    return elf.query(sql, DATA / files, format=format or its_format, threads=threads)


@pytest.mark.parametrize("name", SETS)
def test_lines_and_sums(name: str) -> None:
    sql = """SELECT count(*) AS n, sum(bytes) AS b, count_if(bytes IS NULL) AS dashes,
                    min(time) AS earliest, max(time) AS latest FROM access"""
    result, want = ask(name, sql), truth(name)
    row = next(iter(result))
    assert (result.stats.lines, result.stats.parsed) == (want["lines"], want["parsed"])
    assert (result.stats.rejected, result.stats.directives) == (want["rejected"], 0)
    assert (row.n, row.b, row.dashes) == (want["parsed"], want["bytes_sum"], want["bytes_dash_lines"])
    assert f"{row.earliest:%Y-%m-%dT%H:%M:%SZ}" == want["earliest_time"]
    assert f"{row.latest:%Y-%m-%dT%H:%M:%SZ}" == want["latest_time"]


@pytest.mark.parametrize("name", SETS)
def test_rejected_lines(name: str) -> None:
    result = ask(name, "SELECT count(*) FROM access")
    found = [sample.line_number for sample in result.stats.samples]
    assert found == [reject["line"] for reject in truth(name)["rejected_lines"]][:8]


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("field", ["status", "method"])
def test_counts(name: str, field: str) -> None:
    result = ask(name, f"SELECT {field}, count(*) FROM access WHERE {field} IS NOT NULL GROUP BY {field}")
    got, want = {str(key): count for key, count in result}, truth(name)[f"{field}_counts"]
    missing = sum(count - got.get(key, 0) for key, count in want.items())
    assert missing == (UNLIKE.get(name, 0) if field == "method" else 0)
    if not missing:
        assert got == want


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("top", TOPS)
def test_top_20(name: str, top: str) -> None:
    key, by = TOPS[top]
    sql = f"""SELECT {key}, count(*) AS n, coalesce(sum(bytes), 0) AS b FROM access
              WHERE {key} IS NOT NULL GROUP BY {key} ORDER BY {by} DESC LIMIT 20"""
    assert [list(row) for row in ask(name, sql, threads=2)] == truth(name)[top]["rows"]


@pytest.mark.parametrize("name", SETS)
def test_distinct(name: str) -> None:
    sql = """SELECT count(DISTINCT remote_addr) AS clients, count(DISTINCT path) AS paths,
                    count(DISTINCT uri) AS targets, count(DISTINCT request) AS requests,
                    count(DISTINCT user) AS users,
                    count(DISTINCT date_trunc('MINUTE', time)) AS minutes FROM access"""
    want = truth(name)["distinct"]
    got = next(iter(ask(name, sql))).asdict()
    compared = got.keys() - ({"paths", "targets"} if name in UNLIKE else set())
    assert {key: got[key] for key in compared} == {key: want[key] for key in compared}


@pytest.mark.parametrize("name", SETS)
def test_lines_per_minute(name: str) -> None:
    sql = "SELECT window(time, '1 minute') AS w, count(*) AS n FROM access GROUP BY window(time, '1 minute')"
    minutes = {f"{row.w.start:%Y-%m-%dT%H:%MZ}": row.n for row in ask(name, sql)}
    busiest = sorted(minutes.items(), key=lambda item: (-item[1], item[0]))[:60]
    assert [list(item) for item in busiest] == truth(name)["busiest_60_minutes"]
    assert len(minutes) == truth(name)["distinct"]["minutes"]


@pytest.mark.parametrize("name", SETS)
def test_busiest_hour_by_sliding_windows(name: str) -> None:
    """A window of 60 minutes sliding by one: the fullest that starts at a minute with lines is the busiest hour."""
    sql = """SELECT window(time, '1 hour', '1 minute') AS w, count(*) AS n FROM access
             GROUP BY window(time, '1 hour', '1 minute')"""
    if name in ("buttercup_2019", "nginx_scanned_2024"):
        sql += " HAVING count(*) > 300"
    want = truth(name)["busiest_hour"]
    assert max(row.n for row in ask(name, sql)) == want["lines"]


@pytest.mark.parametrize("name", [name for name, (_, format) in SETS.items() if format in BY_NAME])
def test_detection_finds_the_format(name: str) -> None:
    result = ask(name, "SELECT count(*) AS n FROM access", format="auto")
    assert result.format == SETS[name][1]
    assert next(iter(result)).n == truth(name)["parsed"]
