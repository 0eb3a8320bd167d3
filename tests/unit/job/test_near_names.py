"""What an unknown name may have been meant for: slips and parts of names, not names that merely share letters."""

from __future__ import annotations

import pytest

from job.sql.near_names import did_you_mean

COLUMNS = (
    "request", "request_line", "request_uri", "user", "user_agent", "time", "status", "uri", "c_ip", "cs_version", "referer",
)  # fmt: skip


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("statsu", "status"),
        ("STATUS_", "status"),
        ("requset_uri", "request_uri"),
        ("useragent", "user_agent"),
        ("agent", "user_agent"),
        ("ip", "c_ip"),
        ("ref", "referer"),
        ("url", "uri"),
        ("request_uir", "request_uri"),
        ("usr", "user"),
    ],
)
def test_slips_and_parts_are_near(written: str, meant: str) -> None:
    assert did_you_mean(written, COLUMNS) == f"Did you mean {meant}?"


@pytest.mark.parametrize(
    "written", ["request_time", "session", "server", "user_id", "timestamp", "latency", "_", "", "é", "u" * 100_000]
)
def test_what_shares_letters_alone_is_not(written: str) -> None:
    assert did_you_mean(written, COLUMNS) == ""


def test_the_nearest_comes_first_and_three_are_enough() -> None:
    known = ["statistics", "state_of", "status_of", "status_at", "stattus"]
    assert did_you_mean("stat", known) == "Did you mean statistics or state_of or status_of?"
    assert did_you_mean("status", [*known, "sttus"]) == "Did you mean stattus or sttus?"
