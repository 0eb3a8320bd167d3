"""Logs of many kinds, a few lines each: which format is found, what is rejected, as many good lines as an independent
script counted. The larger real logs are asked in tests/golden/test_truth.py."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import zstandard

from job.errors import FormatError
from job.formats import SourceScanner, detect, find
from tests.format_records import records

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
COMBINED_PLUS = '%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" "%{Extra}i"'
ZOO = {
    # file: (format detected, or None; good lines; why others are rejected)
    "alb": ("alb", 1, {}),
    "amazon_cloudfront_web": ("cloudfront", 1, {}),
    "caddy_json": ("caddy", 3, {}),
    "common_complete": ("vhost_combined", 1, {}),
    "common_encoding_big5": ("vhost_combined", 1, {}),
    "common_vhost": ("vhost_common", 1, {}),
    "elb": ("elb", 2, {"bad_time": 1}),
    "gandi": (None, 0, {}),
    "haproxy": ("haproxy_http", 1, {}),
    "icecast2": (None, 0, {}),
    "iis": ("w3c", 1, {}),
    "iis_custom": ("w3c", 2, {"blank": 1, "mismatch": 2, "bad_number": 1}),
    "incapsula_w3c": ("w3c", 2, {}),
    "lnav_bad_access_log": ("combined", 2, {"truncated": 1}),
    "lnav_caddy_log": (None, 0, {}),
    "lnav_haproxy": ("haproxy_http", 13, {"mismatch": 4}),
    "logs_to_tests": ("combined", 4, {"blank": 1, "truncated": 1}),
    "ncsa_extended": ("combined", 1, {}),
    "netscaler": ("w3c", 1, {}),
    "nginx_json": ("json", 2, {}),
    "ovh": ("combined", 1, {}),
    "s3": ("s3", 1, {}),
    "splitted_date_and_time": ("w3c", 1, {}),
    "static_ignores": ("vhost_combined", 4, {}),
    "traefik_json": ("traefik_json", 1, {}),
}
EXPRESSIONS = {name: name for name in ("common", "combined", "vhost_combined")} | {"combined_plus": COMBINED_PLUS}

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the log sets of ../shared/data are not here")


@cache
def content(path: Path) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())


@cache
def truth(name: str) -> dict[str, Any]:
    return json.loads((DATA / "truth" / f"{name}.json").read_text())  # type: ignore[no-any-return]


def good_lines(text: str, data: bytes) -> int:
    return sum(batch.rows for batch in SourceScanner(find(text), []).feed(data))


@pytest.mark.parametrize("name", ZOO)
def test_zoo(name: str) -> None:
    data = content(DATA / "format_zoo" / f"{name}.log.zst")
    expected, good, rejected = ZOO[name]
    if expected is None:
        with pytest.raises(FormatError, match=r"The best guess is \w+, 0 of \d+ match"):
            detect(data)
        return
    format = detect(data).format
    assert format.name == expected
    batches = SourceScanner(format, list(format.fields)).feed(data)
    reasons: dict[str, int] = {}
    for batch in batches:
        for reason, count in batch.rejected.items():
            reasons[reason] = reasons.get(reason, 0) + count
    assert (sum(batch.rows for batch in batches), reasons) == (good, rejected)
    directives = sum(batch.directives for batch in batches)
    assert sum(batch.lines for batch in batches) == good + sum(rejected.values()) + directives
    assert truth("format_zoo")["files"][f"{name}.log.zst"]["lines"] == sum(batch.lines for batch in batches)


def test_the_whole_zoo_is_asked() -> None:
    assert sorted(ZOO) == sorted(path.name.removesuffix(".log.zst") for path in DATA.glob("format_zoo/*"))


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_the_usual_formats_match_what_plain_expressions_match(name: str, expression: str) -> None:
    """With one exception: the independent expression for combined_plus takes any last column, ours one in quotes."""
    matched = truth("format_zoo")["files"][f"{name}.log.zst"]["matched_by_each_expression"]
    data = content(DATA / "format_zoo" / f"{name}.log.zst")
    want = matched.get(expression, 0) if (name, expression) != ("icecast2", "combined_plus") else 0
    assert good_lines(EXPRESSIONS[expression], data) == want


def test_values_of_the_zoo() -> None:
    def first(name: str) -> dict[str, Any]:
        data = content(DATA / "format_zoo" / f"{name}.log.zst")
        return records(detect(data).format, data)[0]

    iis = first("iis")
    assert (iis["uri"], iis["query"], iis["user"], iis["duration_ms"]) == (
        *("/foo/bar", "topCat1=divinity&submit=Search", "theuser", 1687),
    )
    assert iis["cookie"].startswith("ASP.NET_SessionId=sldfkjs; ")
    assert first("incapsula_w3c")["status"] == 200
    assert first("common_encoding_big5")["uri"] == "/\\xac\\xb0\\xa8\\xe4\\xad\u0766\\xe6\\xb4c\\xb9D"
    traefik = first("traefik_json")
    assert (traefik["time"].isoformat(), traefik["status"]) == ("2023-08-11T11:39:21.773360+00:00", 200)
    assert first("nginx_json")["vhost"] == "www.piwik.org"
