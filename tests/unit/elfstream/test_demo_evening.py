"""The generator's truth against a plain regular expression over what it wrote."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from pathlib import Path

import pytest

from elfstream.demo.evening import LINES_MIN, SERVERS, generate
from elfstream.demo.shop import NGINX_CONF

LINE = re.compile(
    r'(?P<address>\S+) - - \[28/Nov/2025:20:(?P<minute>\d\d):\d\d \+0100\] "(?P<request>[^"]*)" '
    r'(?P<status>\d{3}) (?P<size>\d+) "[^"]*" "(?P<agent>[^"]*)" \d+\.\d{3}'
)


def text(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shop")


def test_the_truth_is_what_was_written(folder: Path) -> None:
    logs, truth = generate(folder, 6_000, 3)
    lines = "".join(map(text, logs)).splitlines()
    good = [match for match in map(LINE.fullmatch, lines) if match]
    assert [path.relative_to(folder).as_posix() for path in logs] == list(SERVERS)
    assert (len(lines), len(lines) - len(good)) == (truth.lines, truth.rejected)
    assert sum(int(match["size"]) for match in good) == truth.size
    assert Counter(int(match["minute"]) // 5 for match in good) == truth.slot_requests
    guessers = Counter(match["address"] for match in good if match["request"] == "POST /login HTTP/1.1")
    assert guessers == truth.logins
    views: Counter[tuple[int, str]] = Counter()
    for match in good:
        product = re.fullmatch(r"GET /product/([a-z-]+) HTTP/1.1", match["request"])
        if product and match["status"] == "200":
            views[int(match["minute"]) // 20, product[1]] += 1
    assert views == truth.views
    assert truth.kind_requests["not HTTP"] == sum(" HTTP/" not in match["request"] for match in good)
    assert truth.kind_missing["tool"] == sum(match["status"] == "404" for match in good)


def test_one_seed_is_one_log(tmp_path: Path) -> None:
    first, _ = generate(tmp_path / "a", LINES_MIN, 1)
    again, _ = generate(tmp_path / "b", LINES_MIN, 1)
    other, _ = generate(tmp_path / "c", LINES_MIN, 2)
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    assert first[0].read_bytes() != other[0].read_bytes()


def test_each_log_is_in_order_of_time(folder: Path) -> None:
    logs, _ = generate(folder, LINES_MIN, 5)
    for path in logs:
        times = re.findall(r"\[28/Nov/2025:(\S+)", text(path))
        assert times == sorted(times)


def test_the_server_configuration_comes_along(folder: Path) -> None:
    generate(folder, LINES_MIN, 5)
    assert (folder / "nginx.conf").read_text() == NGINX_CONF


def test_too_few_lines_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 1000"):
        generate(tmp_path, LINES_MIN - 1, 1)
