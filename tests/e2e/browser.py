"""Chromium without a screen, driven by its DevTools protocol over two pipes."""

import base64
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.third_party import third_party

SECONDS = 60.0  # a bound, not an expectation
_SWITCHES = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--remote-debugging-pipe",
]  # fmt: skip
_KEY_CODES = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39}

Answer = dict[str, Any]


class Browser:
    """`write` takes what it is told, `read` has what it tells: texts that end with NUL."""

    def __init__(self, write: int, read: int) -> None:
        self._write = write
        self._read = read
        self._rest = b""
        self._last = 0
        self.events: list[Answer] = []

    def call(self, method: str, session: str | None = None, **parameters: Any) -> Answer:
        """What it answers. AssertionError: it refuses, or is silent."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + SECONDS
        while True:
            told = self._next(deadline)
            if told.get("id") == self._last:
                assert "error" not in told, f"{method}: {told['error']}"
                found: Answer = told["result"]
                return found
            self.events.append(told)

    def _next(self, deadline: float) -> Answer:
        while b"\0" not in self._rest:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._read], [], [], max(0.0, left))
            assert ready, "the browser is silent"
            found = os.read(self._read, 1 << 20)
            assert found, "the browser has ended"
            self._rest += found
        text, _, self._rest = self._rest.partition(b"\0")
        message: Answer = json.loads(text)
        return message

    def open(self, url: str, width: int = 1280, height: int = 900, **media: str) -> "Tab":
        """A new tab; `media`: features such as `prefers_color_scheme="dark"`."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, session)
        for domain in ("Page", "Runtime", "Log", "Accessibility"):
            tab.call(f"{domain}.enable")
        tab.resize(width, height)
        features = [{"name": key.replace("_", "-"), "value": value} for key, value in media.items()]
        tab.call("Emulation.setEmulatedMedia", features=features)
        tab.go(url)
        return tab


class Tab:
    """A page that is open."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session

    def call(self, method: str, **parameters: Any) -> Answer:
        """Of the DevTools protocol."""
        return self._browser.call(method, self._session, **parameters)

    def go(self, url: str) -> None:
        """Until the page has been loaded."""
        self.call("Page.navigate", url=url)
        there = "document.readyState == 'complete'"
        if not url.startswith("about:"):
            there += " && location.protocol != 'about:'"
        self.wait_for(there, f"{url} is loaded")

    def resize(self, width: int, height: int) -> None:
        """In pixels of CSS."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height,
            deviceScaleFactor=1, mobile=False,
        )  # fmt: skip

    def run(self, script: str) -> Any:
        """The value of an expression, which may be a promise. AssertionError: it throws."""
        found = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait_for(self, script: str, what: str) -> Any:
        """The value of an expression, once it is true."""
        deadline = time.monotonic() + SECONDS
        while not (value := self.run(script)):
            assert time.monotonic() < deadline, f"{what}; the page says: {self.text()}"
            time.sleep(0.1)
        return value

    def text(self, selector: str = "body") -> str:
        """What a reader sees of an element."""
        found: str = self.run(
            f"((one) => one?.innerText ?? one?.textContent ?? '')"
            f"(document.querySelector({json.dumps(selector)}))"
        )
        return found

    def press(self, key: str, shift: bool = False) -> None:
        """A key of the keyboard."""
        code = _KEY_CODES.get(key, ord(key[0].upper()))
        typed = {"text": "\r" if key == "Enter" else key} if key == "Enter" or len(key) == 1 else {}
        more = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", **more, **typed)
        self.call("Input.dispatchKeyEvent", type="keyUp", **more)

    def type(self, text: str) -> None:
        """Into what has the focus."""
        self.call("Input.insertText", text=text)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """As PNG; `whole`: with what one would scroll to."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def faults(self) -> list[str]:
        """Errors of scripts, and refusals by the page's policy, so far."""
        self.run("0")
        return [
            json.dumps(event["params"])
            for event in self._browser.events
            if event.get("sessionId") == self._session and _is_fault(event)
        ]


def _is_fault(event: Answer) -> bool:
    match event["method"]:
        case "Runtime.exceptionThrown":
            return True
        case "Runtime.consoleAPICalled":
            return bool(event["params"]["type"] == "error")
        case "Log.entryAdded":
            entry = event["params"]["entry"]
            return bool(entry["level"] == "error" and entry["source"] != "network")
    return False


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """One that keeps what it must below `folder`. Skips without Chromium; in CI it fails."""
    program = third_party("chromium")
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    words = [str(program), *_SWITCHES, f"--user-data-dir={folder / 'chromium'}"]
    # It reads from descriptor 3 and writes to 4.
    script = f'exec "$@" 3<&{to_read} 4>&{from_write}'
    with subprocess.Popen(
        ["bash", "-c", script, "bash", *words], pass_fds=(to_read, from_write),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        os.close(to_read)
        os.close(from_write)
        try:
            yield Browser(to_write, from_read)
        finally:
            process.kill()
            os.close(to_write)
            os.close(from_read)
