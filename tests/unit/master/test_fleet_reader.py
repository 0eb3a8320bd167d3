"""What Spark asks a fleet: blocking, from node to node, with the errors that people get to see."""

from __future__ import annotations

import http.server
import itertools
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from master.api_options import ApiOptions
from master.asking import Tries
from master.spark import fleet_reader
from master.spark.errors import FleetReadError
from master.spark.fleet_reader import FleetAddress, FleetReader
from master.spark.paced_socket import PacedSocket
from srt.ids import job_key
from tests.patience import PATIENCE_S
from tests.served_fleet import Served, served_fleet

QUICK = ApiOptions(heartbeat_s=0.05)


def reader(served: Served, patience_s: float = PATIENCE_S) -> FleetReader:
    return FleetReader(FleetAddress(tuple(served.urls)), patience_s)


def test_pages_of_windows_and_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_reader, "PAGE_WINDOWS", 3)
    with served_fleet() as served:
        served.submit("hot")
        for number in range(10):
            served.publish("hot", number * 10, [["/a", number]])
        fleet = reader(served)
        assert fleet.names() == ["hot"]
        assert fleet.job("hot")["name"] == "hot"
        assert fleet.last_id("hot") == 30
        assert [one["rows"][0]["hits"] for one in fleet.windows("hot", "final", None, None)] == list(range(10))
        some = fleet.windows("hot", "final", "2025-11-28T20:00:20Z", "2025-11-28T20:00:40Z", 0)
        assert [(one["id"], one["rows"]) for one in some] == [(9, []), (12, [])]


def test_published_results_through_the_loss_of_a_node() -> None:
    with served_fleet(2, QUICK) as served:
        served.submit("hot")
        key = job_key("hot")
        served.do(lambda client: client.fleet.leaders.update({key: 0}))
        for number in range(20):
            served.publish("hot", number * 10, [["/a", number]])
        results = reader(served).published("hot", 15, 105)
        assert next(results)["id"] == 18
        served.do(lambda client: client.fleet.leaders.update({key: 1}))
        served.do(lambda client: client.running.kill(0))
        for number in range(20, 40):
            served.publish("hot", number * 10, [["/a", number]])
        assert [one["id"] for one in results] == list(range(21, 106, 3))
        assert list(reader(served).published("hot", 105, 105)) == []


def test_a_superseded_end_is_no_reason_to_wait() -> None:
    with served_fleet(1, QUICK) as served:
        served.submit("hot")
        for number in range(3):
            served.publish("hot", number * 10, [["/a", number]])
        served.do(lambda client: setattr(client.fleet.jobs[job_key("hot")], "newest", 11))
        served.publish("hot", 0, [["/a", 5]], edition=2)
        assert [one["id"] for one in reader(served).published("hot", 0, 12)] == [3, 6, 9]


def test_what_comes_while_it_is_asked_how_far_results_are_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node was silent for what it did not have yet, and has it when it is asked."""
    with served_fleet(1, QUICK) as served:
        served.submit("hot")
        for number in range(3):
            served.publish("hot", number * 10, [["/a", number]])
        last_id, questions = FleetReader.last_id, iter(range(100))

        def asked(fleet: FleetReader, name: str) -> int:
            if next(questions) == 1:
                served.publish("hot", 40, [["/a", 4]])
            return last_id(fleet, name)

        monkeypatch.setattr(FleetReader, "last_id", asked)
        assert [one["id"] for one in reader(served).published("hot", 6, 12)] == [9, 12]


def test_what_is_wrong_is_said() -> None:
    with served_fleet(1, QUICK) as served:
        served.submit("hot")
        for number in range(9):
            served.publish("hot", number * 10, [["/a", number]])
        served.do(lambda client: client.fleet.drop("hot", 21))
        fleet = reader(served)
        with pytest.raises(FleetReadError, match=r"behind 9 were kept long enough and dropped, up to 21\. Read more often"):
            list(fleet.published("hot", 9, 27))
        assert [one["id"] for one in fleet.published("hot", 21, 27)] == [24, 27]
        with pytest.raises(FleetReadError, match="behind 90 are lost: its log was recovered with losses and ends at 27"):
            list(fleet.published("hot", 90, 93))
        with pytest.raises(FleetReadError, match="no such job"):
            fleet.job("cold")
        with pytest.raises(FleetReadError, match="results up to 30 are not there yet"):
            list(reader(served, 0.3).published("hot", 27, 30))
        served.do(lambda client: client.running.kill(0))
        with pytest.raises(FleetReadError, match="no node answers at http://127"):
            reader(served, 0.2).job("hot")


# what is no node, or none that one may ask


@contextmanager
def answering(body: bytes, headers: tuple[tuple[str, str], ...] = (), status: int = 200) -> Iterator[tuple[str, list[str]]]:
    """A server on loopback that says the same to whatever it is asked: its address, and the paths it was asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            for name, value in headers or (("Content-Length", str(len(body))),):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


RESULT = b'{"id": 3, "window": null, "revision": 1, "status": "final", "columns": [], "rows": []}'


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<html>log in</html>", "JSON is malformed"),
        (b'{"jobs": []}', "missing required field `next`"),
        (b'{"results": [%b], "next": null}' % RESULT, "missing required field `last`"),
        (b'{"results": [%b], "next": null, "last": 3}' % RESULT.replace(b"rows", b"ros"), "missing required field `rows`"),
        (b'{"results": [%b], "next": null, "last": "3"}' % RESULT, "Expected `int`, got `str`"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"jobs": [{"name": "\xff"}], "next": null}', "utf-8"),
    ],
)
def test_what_no_node_would_say_is_told_at_once_and_with_its_address(body: bytes, said: str) -> None:
    with answering(body) as (url, asked):
        fleet = FleetReader(FleetAddress((url,)))
        with pytest.raises(FleetReadError) as raised:
            list(fleet.windows("hot", "final", None, None)) if b"results" in body else fleet.names()
    assert said in str(raised.value)
    assert url in str(raised.value)
    assert len(asked) == 1


def test_answers_and_events_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_reader, "ANSWER_BYTES_MAX", 1000)
    monkeypatch.setattr(fleet_reader, "PIECE_BYTES", 100)
    with answering(b'{"jobs": [], "next": null}' + b" " * 1000) as (url, asked):
        with pytest.raises(FleetReadError, match=f"no node answers at {url}: the answer has more than 1000 bytes"):
            FleetReader(FleetAddress((url,))).names()
        assert len(asked) == 1


@contextmanager
def dripping(begin: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server that begins to answer and then sends a byte from time to time: its address. Each byte is a second of the
    readers' time, so that only a server that drips takes long, however busy the machine is."""
    is_done, now_s = threading.Event(), 0.0

    def clock() -> float:
        return now_s

    monkeypatch.setattr(fleet_reader, "PacedSocket", partial(PacedSocket, clock=clock))

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            nonlocal now_s
            with suppress(OSError):  # the reader is gone
                self.wfile.write(begin)
                while not is_done.wait(0.02):
                    now_s += 1
                    self.wfile.write(b"1")

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        is_done.set()
        server.shutdown()
        thread.join()
        server.server_close()


HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "begin",
    [
        b"HTTP/1.1 200 ",
        HEAD + b"x: ",
        HEAD + b"content-length: 9999\r\n\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\n",
        HEAD + b"\r\nevent: result\ndata: ",
    ],
)
def test_an_answer_that_drips_is_given_up(begin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FleetReader, "last_id", lambda fleet, name: 9)
    with dripping(begin, monkeypatch) as url:
        fleet = FleetReader(FleetAddress((url,)), 0.1)
        said = f"no node answers at {url}: the answer to /v1/jobs/hot.* comes too slowly: [0-9]+ bytes in 3[0-9].0 s"
        with pytest.raises(FleetReadError, match=said):
            list(fleet.published("hot", 0, 9)) if b"event" in begin else fleet.job("hot")


def test_a_node_behind_one_that_drips_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with dripping(HEAD, monkeypatch) as url, served_fleet() as served:
        served.submit("hot")
        assert FleetReader(FleetAddress((url, served.urls[0])), 0.1).names() == ["hot"]


def test_an_event_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    parsers = fleet_reader.EventParser
    monkeypatch.setattr(fleet_reader, "EventParser", lambda comments: parsers(comments, 1000))
    monkeypatch.setattr(FleetReader, "last_id", lambda fleet, name: 9)
    with (
        answering(b"event: result\ndata: " + b"x" * 2000, (("Connection", "close"),)) as (url, asked),
        pytest.raises(FleetReadError, match=f"{url}: an event of the stream has more than 1000 bytes"),
    ):
        list(FleetReader(FleetAddress((url,))).published("hot", 0, 9))
    assert len(asked) == 1


def test_an_answer_that_is_cut_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience is measured in looks at the clock."""
    looks = itertools.count()
    monkeypatch.setattr(FleetReader, "_tries", lambda fleet: Tries(0.3, clock=lambda: next(looks) / 100))
    body = b'{"jobs": [], "next": null}'
    with answering(body, (("Content-Length", str(len(body) + 1)),)) as (url, asked):
        with pytest.raises(FleetReadError, match=f"no node answers at {url}: IncompleteRead"):
            FleetReader(FleetAddress((url,))).names()
        assert len(asked) > 1


def test_another_node_is_asked_before_one_gives_up() -> None:
    with answering(b"<html>") as (url, asked), served_fleet() as served:
        served.submit("hot")
        assert FleetReader(FleetAddress((url, served.urls[0]))).names() == ["hot"]
    assert asked == ["/v1/jobs"]


def test_a_refusal_names_the_node() -> None:
    with answering(b'{"detail": "no", "advice": 3}', status=403) as (url, _), pytest.raises(FleetReadError) as raised:
        FleetReader(FleetAddress((url,))).names()
    assert str(raised.value) == f"{url}: no 3"
    with answering(b"{}", status=500) as (url, _), pytest.raises(FleetReadError, match=f"{url}: status 500: this does not"):
        FleetReader(FleetAddress((url,))).names()


@pytest.mark.parametrize("url", ["http://web1:port", "ftp://web1", "http://:7117", "http://[::1"])
def test_an_address_that_is_none_is_told_at_once(url: str) -> None:
    with pytest.raises(FleetReadError, match="this is no address of a node: write http://HOST:7117"):
        FleetReader(FleetAddress((url,))).names()


def test_certificates_that_are_not_there_are_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FleetReader, "_failed", lambda *_: pytest.fail("it waits, and asks again"))
    gone, bad = str(tmp_path / "ca.pem"), tmp_path / "bad.pem"
    with pytest.raises(FleetReadError, match=f"option cacert: there is no file {gone} on this machine"):
        FleetReader(FleetAddress(("web1:7117",), cacert=gone)).names()
    bad.write_text("no certificate")
    with pytest.raises(FleetReadError, match=f"certificates cannot be used: .*cacert {bad}"):
        FleetReader(FleetAddress(("web1:7117",), cacert=str(bad))).names()
    with pytest.raises(FleetReadError, match=f"certificates cannot be used: .*cert {bad}"):
        FleetReader(FleetAddress(("web1:7117",), cert=str(bad))).names()


def test_https_where_there_is_none_is_told_at_once() -> None:
    with answering(b"") as (url, _), pytest.raises(FleetReadError, match=r"TLS fails \(.*\)\. Does it want http\?"):
        FleetReader(FleetAddress((url.replace("http:", "https:"),))).names()
