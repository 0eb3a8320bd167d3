"""The live page in a headless Chromium, before a fleet of two processes: a job from its form to its end, by keys alone."""

from __future__ import annotations

import asyncio
import random
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from elfstream.demo.fleet import Node
from tests.browser import CONTROL, Browser, Tab, chromium
from tests.integration.fleet_processes import free_port
from tests.patience import PATIENCE_S

PAGE = Path(__file__).resolve().parents[2] / "master" / "page"
WRITE_S = 0.1
WINDOW = "window(time, '1 second')"
SQL = f"SELECT {WINDOW} AS w, path, count(*) AS hits FROM access GROUP BY {WINDOW}, path"
CHANGED = SQL.replace("GROUP BY", "WHERE path = '/b' GROUP BY")
PATHS = "[...document.querySelectorAll('tbody td:first-child')].map((one) => one.innerText).sort().join()"
needs_chromium = pytest.mark.skipif(chromium() is None, reason="there is no Chromium on this machine")


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node on this machine")
def test_scripts_parse() -> None:
    command = ["node", "--input-type=module", "--check"]
    for file in sorted(PAGE.glob("*.js")):
        checked = subprocess.run(command, input=file.read_text(), capture_output=True, text=True, check=False)
        assert checked.returncode == 0, f"{file.name}: {checked.stderr}"


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    """The address of a worker, and the log that its one agent follows."""
    logs = tmp_path / "logs"
    logs.mkdir()
    with ExitStack() as stack:
        rng = random.Random()
        numbers = [free_port(rng) for _ in range(2)]
        ready = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        ready.bind(str(tmp_path / "ready"))
        ready.settimeout(PATIENCE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "ready"))
        nodes = [
            Node(tmp_path, "worker1", numbers[0], None, None),
            Node(tmp_path, "web1", numbers[1], numbers[0], logs),
        ]
        for node in nodes:
            stack.callback(node.process.wait)
            stack.callback(node.process.kill)
        for _ in nodes:
            while b"READY=1" not in ready.recv(4096):
                pass
        yield nodes[0].url, logs / "access.log"


@asynccontextmanager
async def written(log: Path) -> AsyncIterator[None]:
    """A webserver that is asked for /a and /b now and then."""

    async def write() -> None:
        with log.open("a", buffering=1) as file:
            while True:
                for path in ("/a", "/b"):
                    now = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime())
                    file.write(f'192.0.2.1 - - [{now}] "GET {path} HTTP/1.1" 200 5 "-" "curl" 0.010\n')
                await asyncio.sleep(WRITE_S)

    task = asyncio.create_task(write())
    try:
        yield
    finally:
        task.cancel()


@needs_chromium
def test_a_job_from_its_form_to_its_end(fleet: tuple[str, Path], tmp_path: Path) -> None:
    url, log = fleet

    async def use(browser: Browser) -> None:
        async with browser.tab(url) as tab:
            await tab.shows("1 agent, 1 worker", "header")
            await tab.shows("No job runs yet.")
            async with written(log):
                await submits(tab)
                await sees_rows_move(tab)
                await changes_the_filter(tab)
            await stops(tab)
            await removes(tab)
            assert tab.complaints == []
            assert tab.hosts() == {urlsplit(url).netloc}
            assert {urlsplit(address).path.split("/")[1] for _, address in tab.requests} >= {"", "page", "v1"}

    with Browser(tmp_path / "browser") as browser:
        asyncio.run(use(browser))


async def submits(tab: Tab) -> None:
    """First with a mistake: the caret is put where it is, so that it can be mended there."""
    await tab.click("[data-nav=new]")
    await tab.until("document.activeElement.id === 'name'")
    await tab.type("hot")
    await tab.until("document.querySelector('#sql').value.includes('FROM access')")
    await tab.type(SQL.replace("path,", "pat,", 1), into="#sql")
    await tab.shows("there is no column pat", ".verdict")
    await tab.press("Enter", CONTROL)
    at = SQL.index("path")
    await tab.until(f"document.activeElement.id === 'sql' && document.activeElement.selectionStart === {at}")
    await tab.shows(f"Line 1, column {at + 1}", ".verdict")
    await tab.shows("Did you mean path", ".verdict")
    for _ in "pat":
        await tab.press("Delete")
    await tab.type("path")
    assert await tab.evaluate("document.querySelector('#sql').value") == SQL
    await tab.shows("Understood: w, path, hits from access.", ".verdict")
    await tab.click("details:has(.settings) summary")
    await tab.type("100ms", into="#set-emit")
    await tab.type("0s", into="#set-delay")
    await tab.type("1s", into="#set-idle")
    await tab.press("Enter")
    await tab.until("location.hash === '#/jobs/hot'")
    await tab.shows("running", ".head")


async def sees_rows_move(tab: Tab) -> None:
    await tab.until(f"{PATHS} === '/a,/b'")
    await tab.until("document.querySelectorAll('.chart .dot').length >= 6")
    assert (await tab.text(".legend")).split() == ["/a", "/b"]
    await tab.shows("1 of 1", "dl")


async def changes_the_filter(tab: Tab) -> None:
    await tab.type(CHANGED, into="#sql")
    await tab.press("Enter", CONTROL)
    await tab.shows("Revision 2 is on its way", ".notes")
    await tab.shows("revision 2", ".head")
    await tab.until(f"{PATHS} === '/b'")
    await tab.until(
        "[...document.querySelectorAll('.bar-head')].some((one) => one.innerText.includes('revision 2'))"
    )
    await tab.until("document.querySelector('.chart .mark')")
    await tab.shows("SQL changed", ".changes")
    assert await tab.evaluate("document.querySelector('#sql').value") == CHANGED


async def stops(tab: Tab) -> None:
    """Escape leaves it as it is; Enter takes the first choice."""
    await tab.click("[data-key=stop]")
    await tab.until("document.querySelector('dialog[open] h2').innerText === 'Stop hot?'")
    await tab.press("Escape")
    await tab.until("!document.querySelector('dialog[open]')")
    assert "running" in await tab.text(".head")
    await tab.click("[data-key=stop]")
    await tab.until("document.activeElement.innerText === 'Read to the end, then stop'")
    await tab.press("Enter")
    await tab.shows("stopped", ".head .badge")
    await tab.until("document.querySelector('form.editor').hidden")
    assert "9999" not in await tab.text(".head")  # its watermark is the end of time
    stops = [method for method, address in tab.requests if urlsplit(address).path == "/v1/jobs/hot/stop"]
    assert stops == ["POST"]


async def removes(tab: Tab) -> None:
    await tab.click("[data-key=remove]")
    await tab.until("document.querySelector('dialog[open]')")
    await tab.press("Enter")
    await tab.until("location.hash === '#/'")
    await tab.shows("hot is removed, with its results.", "#said")
    await tab.shows("No job runs yet.")
