"""The webservers of the live demonstration against plain regular expressions over what they wrote."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from elfstream.demo.shop import endpoint
from elfstream.demo.traffic import KINDS, TICK_S, Traffic, shares
from elfstream.demo.webservers import DECODER, ROTATIONS, SERVERS, Happened, Play, Second, Told
from tests.patience import PATIENCE_S

LINE = re.compile(
    r'(?P<address>\S+) - - \[(?P<stamp>[^]]+)\] "(?P<request>[^"]*)" '
    r'(?P<status>\d{3}) (?P<size>\d+) "[^"]*" "[^"]*" (?P<seconds>\d+)\.(?P<millis>\d{3})'
)
PLAY_S = 4.0


def told_by(folder: Path, seed: int = 5, rate: float = 1500) -> list[Told]:
    play = Play(folder, seed, rate, PLAY_S)
    told: list[Told] = []
    for number in range(int(PLAY_S / TICK_S)):
        told += play.tick(number * TICK_S, 1_700_000_000 + int(number * TICK_S))
    return [*told, *play.close()]


def written(folder: Path) -> dict[str, str]:
    """What each server wrote, oldest first."""
    texts = {}
    for name in SERVERS:
        paths = sorted((folder / name).iterdir(), reverse=True)
        parts = [gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes() for path in paths]
        texts[name] = b"".join(parts).decode()
    return texts


def test_the_truth_is_what_was_written(tmp_path: Path) -> None:
    seconds = [one for one in told_by(tmp_path) if isinstance(one, Second)]
    lines = "".join(written(tmp_path).values()).splitlines()
    good = [match for match in map(LINE.fullmatch, lines) if match]
    assert [one.second for one in seconds] == [1_700_000_000 + at for at in range(4)]
    assert sum(one.lines for one in seconds) == len(lines)
    assert 0 < sum(one.garbage for one in seconds) == len(lines) - len(good)
    assert sum(one.size for one in seconds) == sum(int(match["size"]) for match in good)
    assert sum(one.errors for one in seconds) == sum(match["status"] >= "500" for match in good) > 0
    assert sum(one.clients for one in seconds) == len({match["address"] for match in good})
    views, requests, millis = Counter[str](), Counter[str](), Counter[tuple[str, int]]()
    for match in good:
        request = re.fullmatch(r"(?:GET|POST) (\S+) HTTP/1.1", match["request"])
        if request and match["status"] != "404":
            name = endpoint(request[1])
            requests[name] += 1
            millis[name, int(match["seconds"]) * 1000 + int(match["millis"])] += 1
            if name == "/product" and match["status"] == "200":
                views[request[1][9:]] += 1
    assert sum((Counter(one.views) for one in seconds), Counter()) == views
    meant = [(name, truth) for one in seconds for name, truth in one.endpoints.items()]
    assert sum((Counter({name: truth.requests}) for name, truth in meant), Counter()) == requests
    assert sum((Counter({(name, ms): n for ms, n in truth.millis.items()}) for name, truth in meant), Counter()) == millis


def test_logs_are_rotated_and_compressed(tmp_path: Path) -> None:
    told = told_by(tmp_path)
    happened = [(one.server, one.what.split()[0]) for one in told if isinstance(one, Happened)]
    verbs = {"rename": "renamed", "reopen": "opened", "compress": "compressed"}
    assert happened == [(SERVERS[server], verbs[what]) for _, server, what in ROTATIONS]
    names = {name: sorted(path.name for path in (tmp_path / name).iterdir()) for name in SERVERS}
    assert names == {
        "web1": ["access.log", "access.log.1"],
        "web2": ["access.log", "access.log.1.gz"],
        "web3": ["access.log", "access.log.1"],
    }


def test_each_log_is_in_order_of_time(tmp_path: Path) -> None:
    told_by(tmp_path)
    for text in written(tmp_path).values():
        stamps = [match["stamp"] for match in map(LINE.fullmatch, text.splitlines()) if match]
        assert stamps == sorted(stamps)


def test_one_seed_is_one_play(tmp_path: Path) -> None:
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        told_by(tmp_path / folder, seed)
    assert written(tmp_path / "a") == written(tmp_path / "b") != written(tmp_path / "c")


def test_the_rate_is_kept_over_a_play() -> None:
    traffic = Traffic(3, 2000, PLAY_S)
    lines = sum(len(traffic.tick(number * TICK_S, 0, "-")) for number in range(int(PLAY_S / TICK_S)))
    assert 0.85 < lines / (2000 * PLAY_S) < 1.15
    assert all(set(shares(part / 100)) == set(KINDS) for part in range(100))


def test_they_end_when_nobody_listens_any_more(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "elfstream.demo.webservers", str(tmp_path), "1", "500", "60", "keep"]
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=PATIENCE_S)
    told = [DECODER.decode(line) for line in done.stdout.splitlines()]
    lines = sum(one.lines for one in told if isinstance(one, Second))
    assert lines == sum(text.count("\n") for text in written(tmp_path).values()) > 0
