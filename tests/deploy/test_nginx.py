"""nginx's configuration, read; and run before two upstreams, where a nginx is installed."""

import json
import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from bots_service.api.app import ROUTES
from bots_service.api.requests import TRAINING_LIMIT
from bots_service.serving.server import KEEP_ALIVE_S
from bots_service.settings import Settings
from tests.deploy.files import NGINX, directives, nginx, seconds, size
from tests.ports import free_port
from tests.servers import wait_until


def only(block, name):
    """The first argument of the one directive of this name that stands directly in the block."""
    (found,) = [each for each in block if each["directive"] == name]
    return found["args"][0]


def location(*args):
    (found,) = [each for each in directives(nginx(), "location") if each["args"] == list(args)]
    return found["block"]


def server():
    (found,) = [each for each in directives(nginx(), "server") if "block" in each]
    return found["block"]


def streamed():
    """The location of what is large."""
    (found,) = [each for each in directives(nginx(), "location") if "datasets" in each["args"][-1]]
    return found


def test_a_scanner_of_its_flaws_finds_none():
    gixy = Path(sys.executable).with_name("gixy")
    done = subprocess.run([gixy, "--format", "json", NGINX], capture_output=True, text=True, check=False)
    assert json.loads(done.stdout) == [], done.stdout


def test_it_closes_idle_connections_before_the_service_does():
    (upstream,) = directives(nginx(), "upstream")
    assert seconds(only(upstream["block"], "keepalive_timeout")) < KEEP_ALIVE_S


@pytest.mark.parametrize("args", [("~", "^/(select|report)$"), ("@again",)])
def test_it_waits_longer_for_selects_and_reports_than_the_service_works_on_them(args):
    assert seconds(only(location(*args), "proxy_read_timeout")) > Settings.model_fields["request_timeout_s"].default


def test_it_takes_bodies_as_large_as_the_service_does():
    assert size(only(server(), "client_max_body_size")) >= TRAINING_LIMIT
    pools = streamed()["block"]
    assert size(only(pools, "client_max_body_size")) >= Settings.model_fields["max_upload_bytes"].default
    assert only(pools, "proxy_request_buffering") == "off"


def test_the_routes_of_pools_and_journals_are_streamed_and_no_others():
    paths = {route.path for route in ROUTES}
    made = {path: re.sub(r"\{\w+\}", "x", path) for path in paths}
    assert {path for path, example in made.items() if re.search(streamed()["args"][1], example)} == {
        "/datasets/{dataset}",
        "/datasets/{dataset}/tasks",
        "/datasets/{dataset}/runs/{run}/tasks",
        "/datasets/{dataset}/runs/{run}/export",
        "/datasets/{dataset}/runs/{run}/import",
    }


def test_the_log_holds_no_header_and_no_query():
    (line,) = directives(nginx(), "log_format")
    logged = set(re.findall(r"\$\w+", " ".join(line["args"])))
    assert not {name for name in logged if name.startswith(("$http_", "$arg", "$query", "$request_uri", "$cookie"))}
    assert "$request" not in logged


EXECUTABLE = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")

RUNS = [f"guru/run-{number}" for number in range(20)]


class Upstream:
    """Answers with its port; a broken one takes each request and hangs up."""

    def __init__(self, *, broken):
        self.seen: list[str] = []
        self.broken = broken
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                upstream.seen.append(self.headers["X-Request-Id"])
                if upstream.broken:
                    self.close_connection = True
                    return
                body = str(upstream.port).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.02])
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def upstreams():
    made = [Upstream(broken=True), Upstream(broken=False)]
    yield made
    for each in made:
        each.close()


@pytest.fixture
def sound_upstreams(upstreams):
    for each in upstreams:
        each.broken = False
    return upstreams


@pytest.fixture
def proxy(upstreams, tmp_path):
    """Our configuration on a free port, with the two upstreams in place of those that Docker would name."""
    if EXECUTABLE is None:
        pytest.skip("no nginx on this machine")
    port = free_port()
    content = (
        NGINX.read_text("utf-8").replace("/tmp/", f"{tmp_path}/").replace("listen 8080", f"listen 127.0.0.1:{port}")
    )
    # Both stay in the round although one of them fails, so that each request may come to either.
    servers = " ".join(f"server 127.0.0.1:{each.port} max_fails=0;" for each in upstreams)
    content = re.sub(r"server bots:8765 resolve[^;]*;", servers, content)
    content = re.sub(r"resolver [^;]*;", "", content)
    written = tmp_path / "nginx.conf"
    written.write_text(content)
    command = [EXECUTABLE, "-c", written, "-e", tmp_path / "error.log", "-g", "daemon off;"]
    with (tmp_path / "output").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)

    def answers():
        assert process.poll() is None, (tmp_path / "output").read_text()
        try:
            httpx.get(f"http://127.0.0.1:{port}/nowhere", timeout=5)
        except httpx.TransportError:
            return False
        return True

    try:
        wait_until(answers)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            yield client
    finally:
        process.terminate()
        process.wait()


def answering(proxy, run, **headers):
    """Who answers a select and a report of a run: the ports that they told."""
    return {proxy.post(path, json={}, headers={"Bots-Run": run, **headers}).text for path in ("/select", "/report")}


def test_a_run_stays_at_one_replica_and_runs_are_spread_over_all(proxy, sound_upstreams):
    homes = {run: answering(proxy, run) for run in RUNS}
    assert {len(ports) for ports in homes.values()} == {1}
    assert set().union(*homes.values()) == {str(each.port) for each in sound_upstreams}
    assert {run: answering(proxy, run, **{"Idempotency-Key": "key"}) for run in RUNS} == homes


def test_the_runs_of_a_replica_that_breaks_go_to_another_with_a_key_and_are_sent_once_without(proxy, upstreams):
    broken, sound = upstreams
    assert [answering(proxy, run, **{"Idempotency-Key": "key"}) for run in RUNS] == [{str(sound.port)}] * len(RUNS)
    assert broken.seen  # else this would prove nothing

    broken.seen.clear()
    sound.seen.clear()
    codes = [proxy.post("/report", json={}, headers={"Bots-Run": run}).status_code for run in RUNS]
    assert codes.count(502) == len(broken.seen) > 0
    assert codes.count(200) == len(sound.seen) == len(RUNS) - len(broken.seen)
