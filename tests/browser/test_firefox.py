"""The page in Firefox, driven by WebDriver BiDi, the W3C's: Playwright drives only a Firefox of its own build."""

import base64
import itertools
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.exceptions import InvalidHandshake
from websockets.sync.client import ClientConnection, connect

from tests.browser.chromium import DESK, PHONE, SCREENSHOTS
from tests.browser.replaying import BOTS, DATASET
from tests.ports import free_port
from tests.serving import ServiceProcess

STARTS_WITHIN_S = 120
SOON_S = 60


class Firefox:
    """A window of Firefox. wrong: what its console got of errors and warnings since it was last opened."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._numbers = itertools.count()
        self.wrong: list[str] = []
        self._do("session.new", capabilities={})
        self._do("session.subscribe", events=["log.entryAdded"])
        self._window = self._do("browsingContext.getTree")["contexts"][0]["context"]

    def resize(self, width: int, height: int) -> None:
        self._do("browsingContext.setViewport", context=self._window, viewport={"width": width, "height": height})

    def open(self, url: str, width: int, height: int) -> None:
        self.resize(width, height)
        self._do("browsingContext.navigate", context=self._window, url="about:blank", wait="complete")
        self.wrong.clear()
        self._do("browsingContext.navigate", context=self._window, url=url, wait="complete")

    def evaluate(self, expression: str) -> Any:
        target = {"context": self._window}
        return self._do("script.evaluate", expression=expression, target=target, awaitPromise=True)["result"]["value"]

    def wait_for(self, expression: str) -> None:
        end = time.monotonic() + SOON_S
        while not self.evaluate(expression):
            if time.monotonic() > end:
                raise TimeoutError(f"not true in time: {expression}")
            time.sleep(0.1)

    def keep(self, name: str) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        picture = self._do("browsingContext.captureScreenshot", context=self._window, origin="document")
        (SCREENSHOTS / f"{name}.png").write_bytes(base64.b64decode(picture["data"]))

    def _do(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._connection.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._connection.recv(timeout=SOON_S))
            if message.get("method") == "log.entryAdded" and message["params"]["level"] in ("error", "warn"):
                self.wrong.append(message["params"]["text"])
            if message.get("id") == number:
                assert message["type"] == "success", message
                return dict(message["result"])


@contextmanager
def open_firefox() -> Iterator[Firefox]:
    """Start the Firefox that is installed here, without a window on a screen; end it at the end."""
    path = shutil.which("firefox-esr") or shutil.which("firefox")
    if path is None:
        raise RuntimeError("there is no Firefox here: `apt-get install firefox-esr`, or `make test-browser` as root")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="bots-firefox-", ignore_cleanup_errors=True) as profile:
        command = [path, "--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", str(port)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            with connected(f"ws://127.0.0.1:{port}/session") as connection:
                yield Firefox(connection)
        finally:
            process.terminate()
            process.wait()


def connected(url: str) -> ClientConnection:
    end = time.monotonic() + STARTS_WITHIN_S
    while True:
        try:
            return connect(url, max_size=None)
        except (OSError, InvalidHandshake):
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


VIEWS = {
    "overview": "",
    "dataset": f"datasets/{DATASET}",
    "run": f"datasets/{DATASET}/runs/{BOTS}",
    "tasks": f"datasets/{DATASET}/runs/{BOTS}/tasks",
}
READY = "document.querySelector('#live[data-state=live]') !== null && document.querySelector('main h1') !== null"
WAITING = "document.querySelector('figure:not([hidden]) .plot[aria-busy]')"
DRAWN = f"document.querySelector('.plot path') !== null && {WAITING} === null"


@pytest.fixture(scope="module")
def firefox() -> Iterator[Firefox]:
    with open_firefox() as started:
        yield started


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_drawn_and_nothing_goes_wrong(view: str, firefox: Firefox, trained: ServiceProcess):
    firefox.open(f"{trained.url}/#/{VIEWS[view]}", *DESK)
    firefox.wait_for(READY)
    for name, size in (("desk", DESK), ("phone", PHONE)):
        firefox.resize(*size)
        if view in ("dataset", "run"):
            firefox.wait_for(DRAWN)
        firefox.keep(f"firefox-{view}-{name}")
        assert firefox.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert firefox.wrong == []
