"""A headless Chromium that is driven over the DevTools protocol, with aiohttp alone.

https://chromedevtools.github.io/devtools-protocol/: commands and events are JSON over one WebSocket per page.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from tests.patience import PATIENCE_S

MESSAGE_MAX = 64 << 20
CONTROL, SHIFT = 2, 8
_LISTENS = re.compile(rb"DevTools listening on ws://127\.0\.0\.1:(\d+)/")
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--remote-debugging-port=0", "--hide-scrollbars",
)  # fmt: skip
_KEYS = {
    "Enter": (13, "\r"), "Tab": (9, ""), "Escape": (27, ""), "ArrowDown": (40, ""), "End": (35, ""), "Delete": (46, ""),
}  # fmt: skip
_UNTIL = """((condition, limit) => new Promise((done, failed) => {
  let seen, watcher, often, last;
  const end = (how, value) => { watcher.disconnect(); clearInterval(often); clearTimeout(last); how(value); };
  const look = () => {
    try { seen = condition(); } catch (error) { seen = String(error); return; }
    if (seen) end(done, seen);
  };
  watcher = new MutationObserver(look);
  often = setInterval(look, 50);
  last = setTimeout(() => end(failed, new Error("still " + JSON.stringify(seen))), limit);
  watcher.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
  look();
}))"""


def chromium() -> str | None:
    """The path of a Chromium or Chrome, if there is one."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((found for name in names if (found := shutil.which(name))), None)


class ScriptError(AssertionError):
    """What was asked of the page failed in it."""


class Tab:
    """A page. `complaints` are errors and warnings of its console, those of its policy among them, but `refused` has the
    requests that did not succeed; `requests` are all of them, as (method, address)."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._asked = asyncio.Event()
        self._reader = asyncio.create_task(self._read())
        self.complaints: list[str] = []
        self.refused: list[str] = []
        self.requests: list[tuple[str, str]] = []

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """A command and its result."""
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_str(json.dumps({"id": number, "method": method, "params": params}))
        return await asyncio.wait_for(answer, 2 * PATIENCE_S)

    async def open(self, url: str) -> None:
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.call(f"{domain}.enable")
        await self.call("Page.navigate", url=url)
        await self.until("document.readyState === 'complete'")

    async def resize(self, width: int, height: int) -> None:
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    async def evaluate(self, script: str) -> Any:
        """The value of an expression; a promise is awaited. Raises ScriptError."""
        answer = await self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise ScriptError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    async def until(self, condition: str) -> Any:
        """Waits until an expression is true, and returns its value. Raises ScriptError with its last value."""
        script = f"{_UNTIL}(() => ({condition}), {PATIENCE_S * 1000})"
        try:
            return await self.evaluate(script)
        except ScriptError as error:
            text = await self.evaluate("document.body?.innerText")
            raise ScriptError(f"{condition}: {error}\n{text}\n{self.complaints}") from None

    async def shows(self, text: str, where: str = "body") -> None:
        """Waits until an element's text contains this."""
        await self.until(
            f"document.querySelector({json.dumps(where)})?.innerText.includes({json.dumps(text)})"
        )

    async def asks(self, path: str, times: int = 1) -> None:
        """Waits until the page has asked for something so many times more."""
        count = len(self.requests)
        async with asyncio.timeout(PATIENCE_S):
            while sum(urlsplit(url).path == path for _, url in self.requests[count:]) < times:
                self._asked.clear()
                await self._asked.wait()

    async def text(self, selector: str) -> str:
        return str(await self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))

    async def click(self, selector: str) -> None:
        """The mouse is not used: an element is focused, and Enter pressed."""
        await self.focus(selector)
        await self.press("Enter")

    async def focus(self, selector: str) -> None:
        await self.until(f"document.querySelector({json.dumps(selector)})")
        await self.evaluate(f"document.querySelector({json.dumps(selector)}).focus()")

    async def press(self, key: str, modifiers: int = 0) -> None:
        """One key down and up again."""
        # Codes of other keys than letters and digits mean something else: 40, "(", is the arrow down.
        code, text = _KEYS.get(key) or (ord(key.upper()) if key.isalnum() else 0, key)
        about: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        if modifiers & CONTROL:
            text = ""
            if key == "a":
                about["commands"] = ["selectAll"]
        down = "keyDown" if text else "rawKeyDown"
        await self.call("Input.dispatchKeyEvent", type=down, text=text, **about)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    async def type(self, text: str, into: str | None = None) -> None:
        """Presses the keys of a text, instead of what was in the element `into`."""
        if into is not None:
            await self.focus(into)
            await self.press("a", CONTROL)
        for character in text:
            await self.press("Enter" if character == "\n" else character)

    async def picture(self) -> str:
        """A screenshot as base64 of a PNG."""
        return str((await self.call("Page.captureScreenshot", captureBeyondViewport=True))["data"])

    def hosts(self) -> set[str]:
        """Whom the page asked for anything."""
        return {urlsplit(url).netloc for _, url in self.requests if not url.startswith("data:")}

    async def close(self) -> None:
        await self._socket.close()
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader

    async def _read(self) -> None:
        async for message in self._socket:
            told = json.loads(message.data)
            if "id" not in told:
                self._note(told["method"], told["params"])
            elif not (waiting := self._waiting.pop(told["id"])).done():
                if "error" in told:
                    waiting.set_exception(ScriptError(str(told["error"])))
                else:
                    waiting.set_result(told["result"])

    def _note(self, event: str, params: dict[str, Any]) -> None:
        if event == "Network.requestWillBeSent":
            self.requests.append((params["request"]["method"], params["request"]["url"]))
            self._asked.set()
        elif event == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description") or details["text"])
        elif event == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(" ".join(str(one.get("value")) for one in params["args"]))
        elif event == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            entry = params["entry"]
            into = self.refused if entry["source"] == "network" else self.complaints
            into.append(f"{entry['text']} {entry.get('url', '')}")


class Browser:
    """A process of Chromium with a profile of its own in `folder`; a context. A tab belongs to the loop that opens it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last: deque[bytes] = deque(maxlen=20)

    def __enter__(self) -> Browser:
        path = chromium()
        assert path is not None
        # A home of its own: nothing of the user's is read or written.
        environment = {**os.environ, "HOME": str(self._folder), "XDG_CONFIG_HOME": str(self._folder)}
        self._process = subprocess.Popen(
            [path, *_FLAGS, f"--user-data-dir={self._folder / 'profile'}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env=environment, start_new_session=True,
        )  # fmt: skip
        self._port = self._listens()
        self._drain = threading.Thread(target=self._read_on, daemon=True)
        self._drain.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._drain.join()
        assert self._process.stderr is not None
        self._process.stderr.close()

    @contextlib.asynccontextmanager
    async def tab(self, url: str) -> AsyncIterator[Tab]:
        """A new page at an address."""
        async with aiohttp.ClientSession() as session:
            async with session.put(f"http://127.0.0.1:{self._port}/json/new?about:blank") as answer:
                place = json.loads(await answer.read())
            tab = Tab(await session.ws_connect(place["webSocketDebuggerUrl"], max_msg_size=MESSAGE_MAX))
            try:
                await tab.resize(1360, 900)
                await tab.open(url)
                yield tab
            finally:
                await tab.close()
                async with session.get(f"http://127.0.0.1:{self._port}/json/close/{place['id']}"):
                    pass

    def _listens(self) -> int:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._last.append(line)
            if found := _LISTENS.match(line):
                return int(found[1])
        raise AssertionError(b"".join(self._last).decode(errors="replace"))

    def _read_on(self) -> None:
        assert self._process.stderr is not None
        self._last.extend(self._process.stderr)
