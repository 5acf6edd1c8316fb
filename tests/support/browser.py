"""A real Chromium, driven through its DevTools pipe: a page is loaded, looked at, typed into and photographed.

Needs no package: the protocol is JSON between zero bytes on two pipes. One page at a time; whatever goes wrong in it
(console errors, exceptions, dialogs, requests) is kept for the test to see.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
KEYS = {
    "Enter": ("\r", 13), "Tab": ("", 9), "Escape": ("", 27), " ": (" ", 32), "ArrowDown": ("", 40), "ArrowUp": ("", 38),
    "ArrowLeft": ("", 37), "ArrowRight": ("", 39), "End": ("", 35), "Home": ("", 36), "PageDown": ("", 34),
}  # fmt: skip
READY = "document.documentElement?.dataset.ready === 'true'"
FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
PATIENCE = 500
WORDS = [
    "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--hide-scrollbars", "--force-color-profile=srgb",
]  # fmt: skip


def find_chromium() -> str | None:
    """A Chromium on this machine, looked for as `scripts/get-chromium` does."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One browser with one page."""

    def __init__(self, process: subprocess.Popen[bytes], commands: int, replies: int) -> None:
        self.console: list[str] = []
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        self._process, self._commands, self._replies = process, commands, replies
        self._unread = b""
        self._serial = 0
        self._session: str | None = None
        self._loaded = False
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self._ask(f"{domain}.enable")

    def open(self, address: str, *, until: str = READY, timeout_s: float = 60.0) -> float:
        """Load a page and wait until its script is done; returns how long that took, in seconds."""
        self.console.clear()
        self.requests.clear()
        self.dialogs.clear()
        began = time.perf_counter()
        self._ask("Page.navigate", url=address)
        self.wait_for(until, timeout_s=timeout_s)
        self.wait_for("document.readyState === 'complete'", timeout_s=timeout_s)
        if until == READY:
            # Two frames: what the script made has been laid out and painted.
            self.run(FRAMES)
        return time.perf_counter() - began

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression in the page; a promise is waited for."""
        reply = self._ask(
            "Runtime.evaluate",
            expression=script,
            awaitPromise=True,
            returnByValue=True,
            allowUnsafeEvalBlockedByCSP=False,
        )
        if "exceptionDetails" in reply:
            raise AssertionError(
                f"{script}: {reply['exceptionDetails'].get('exception', {}).get('description')}"
            )
        return reply["result"].get("value")

    def wait_for(self, script: str, *, timeout_s: float = 60.0) -> None:
        """Until an expression is true."""
        end = time.monotonic() + timeout_s
        while not self.run(script):
            if time.monotonic() > end:
                raise AssertionError(f"never true: {script}")
            time.sleep(0.02)

    def click(self, selector: str) -> None:
        """A real mouse click in the middle of the first element that fits, once the mouse would hit it there."""
        aim = (
            f"(() => {{ const found = document.querySelector({json.dumps(selector)}); if (!found) return null; "
            "found.scrollIntoView({block: 'center', behavior: 'instant'}); const box = found.getBoundingClientRect(); "
            "const at = [box.x + box.width / 2, box.y + box.height / 2]; const hit = document.elementFromPoint(...at); "
            "return hit && (found.contains(hit) || hit.contains(found)) ? at : null; })()"
        )
        # Seen twice at one place with frames between: a page that is still being laid out moves under the mouse.
        for _ in range(PATIENCE):
            first = self.run(aim)
            self.run(FRAMES)
            if first is not None and first == self.run(aim):
                return self.click_at(*first)
        raise AssertionError(f"nothing to click at: {selector}")

    def click_at(self, x: float, y: float) -> None:
        self._ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            self._ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str, *, shift: bool = False) -> None:
        """A real key, down and up."""
        text, code = KEYS[key]
        common = {
            "key": key,
            "code": key,
            "windowsVirtualKeyCode": code,
            "modifiers": 8 if shift else 0,
        }
        self._ask("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self._ask("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        """Text into whatever has the focus."""
        self._ask("Input.insertText", text=text)

    def resize(self, width: int, height: int, *, phone: bool = False) -> None:
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )

    def let_scripts_run(self, allowed: bool) -> None:
        """Those of the pages opened from now on."""
        self._ask("Emulation.setScriptExecutionDisabled", value=not allowed)

    def prefer(self, scheme: str, *, media: str = "") -> None:
        """`light` or `dark`; on a `screen`, or on paper (`print`)."""
        self._ask(
            "Emulation.setEmulatedMedia",
            media=media,
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    def photograph(self, path: Path, *, whole_page: bool = False) -> None:
        reply = self._ask(
            "Page.captureScreenshot",
            format="png",
            captureBeyondViewport=whole_page,
            **self._clip(whole_page),
        )
        path.write_bytes(base64.b64decode(reply["data"]))

    def print_to(self, path: Path) -> None:
        """The page on paper, as PDF."""
        path.write_bytes(
            base64.b64decode(self._ask("Page.printToPDF", printBackground=True)["data"])
        )

    def _clip(self, whole_page: bool) -> dict[str, Any]:
        if not whole_page:
            return {}
        size = self._ask("Page.getLayoutMetrics")["cssContentSize"]
        return {
            "clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        }

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._serial += 1
        message = {"id": self._serial, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            reply = self._next_message()
            if reply.get("id") == self._serial:
                if "error" in reply:
                    raise AssertionError(f"{method}: {reply['error']['message']}")
                result: dict[str, Any] = reply["result"]
                return result
            self._note(reply)

    def _next_message(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._replies], [], [], 90)
            piece = os.read(self._replies, 1 << 20) if ready else b""
            if not piece:
                raise AssertionError("the browser does not answer")
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        """Keep what a test must see; a dialog is closed at once, for it would stop the page."""
        parameters = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                details = parameters["exceptionDetails"]
                self.console.append(
                    details.get("exception", {}).get("description") or details["text"]
                )
            case "Runtime.consoleAPICalled":
                self.console.append(" ".join(str(a.get("value")) for a in parameters["args"]))
            case "Log.entryAdded":
                self.console.append(parameters["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case "Page.javascriptDialogOpening":
                self.dialogs.append(parameters["message"])
                self._serial += 1
                close = {
                    "id": self._serial,
                    "method": "Page.handleJavaScriptDialog",
                    "params": {"accept": False},
                }
                os.write(
                    self._commands,
                    json.dumps(close | {"sessionId": self._session}).encode() + b"\0",
                )
                self._serial -= 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        os.close(self._commands)
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._replies)


def _far_pipe() -> tuple[int, int]:
    """A pipe whose ends are out of the way of the descriptors 3 and 4."""
    ends = os.pipe()
    far = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in ends]
    for end in ends:
        os.close(end)
    return far[0], far[1]


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with a fresh profile, closed at the end."""
    program = find_chromium()
    assert program is not None
    ours_in, theirs_out = _far_pipe()
    theirs_in, ours_out = _far_pipe()
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        # The protocol wants the descriptors 3 and 4, which in this process belong to someone else.
        script = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out} {theirs_in}<&- {theirs_out}>&-'
        process = subprocess.Popen(
            [
                "/bin/bash",
                "-c",
                script,
                program,
                *WORDS,
                f"--user-data-dir={profile}",
                "about:blank",
            ],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        with Browser(process, ours_out, ours_in) as browser:
            yield browser
