"""A real Alertmanager in a process of its own, and somebody whom it tells."""

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import yaml

from tests.observability.prometheus import SOON_S, tool, wait_until_ready
from tests.serving import free_port

# Alertmanager sends one notification for each alert, without waiting, and one when the alert ends.
ROUTE = {"receiver": "us", "group_by": ["..."], "group_wait": "0s", "group_interval": "1s", "repeat_interval": "1h"}


@dataclass(frozen=True, slots=True)
class Alertmanager:
    """It takes alerts at this address; notifications: what it told of them, oldest first."""

    address: str
    notifications: list[dict[str, Any]] = field(default_factory=list)

    def told(self, status: str) -> list[dict[str, Any]]:
        """Return the alerts that it told of as "firing" or as "resolved"."""
        return [alert for one in list(self.notifications) for alert in one["alerts"] if alert["status"] == status]


@contextmanager
def running_alertmanager(folder: Path) -> Iterator[Alertmanager]:
    """Start it, and a web server that it sends all notifications to; folder: for its files."""
    started = Alertmanager(f"127.0.0.1:{free_port()}")
    with _receiver(started) as url:
        receiver = {"name": ROUTE["receiver"], "webhook_configs": [{"url": url, "send_resolved": True}]}
        (folder / "alertmanager.yml").write_text(yaml.safe_dump({"route": ROUTE, "receivers": [receiver]}))
        command = [*with_its_share(tool("prometheus-alertmanager")), "--config.file=alertmanager.yml"]
        command += ["--storage.path=data", f"--web.listen-address={started.address}", "--cluster.listen-address="]
        with (folder / "alertmanager.log").open("wb") as log:
            process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            wait_until_ready(process, f"http://{started.address}", folder / "alertmanager.log")
            yield started
        finally:
            process.terminate()
            process.wait(SOON_S)


def with_its_share(program: str) -> list[str]:
    """Return the words that run a program with the files of its package in /usr/share, where Debian's looks for them.

    Only that process sees them there: its mounts are its own.
    """
    owner = [] if os.geteuid() == 0 else ["--map-root-user"]
    share = Path(program).parents[1] / "share"
    return ["unshare", "--mount", *owner, "sh", "-c", 'mount --bind "$0" /usr/share && exec "$@"', str(share), program]


@contextmanager
def _receiver(alertmanager: Alertmanager) -> Iterator[str]:
    """Take what it sends; yields the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told = self.rfile.read(int(self.headers["Content-Length"]))
            alertmanager.notifications.append(json.loads(told))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
