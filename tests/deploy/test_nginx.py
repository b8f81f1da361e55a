"""nginx with our configuration, before two upstreams, where a nginx is installed."""

import re
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from tests.deploy.files import NGINX
from tests.servers import wait_until
from tests.serving import free_port

EXECUTABLE = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
pytestmark = pytest.mark.skipif(EXECUTABLE is None, reason="no nginx on this machine")

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
    port = free_port()
    content = (
        NGINX.read_text("utf-8").replace("/tmp/", f"{tmp_path}/").replace("listen 8080", f"listen 127.0.0.1:{port}")
    )
    # Both stay in the round although one of them fails, so that each request may come to either.
    servers = " ".join(f"server 127.0.0.1:{each.port} max_fails=0;" for each in upstreams)
    content = re.sub(r"server bots:8000 resolve[^;]*;", servers, content)
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


@pytest.mark.parametrize("path", ["/select", "/report"])
def test_what_has_a_key_goes_to_the_next_replica_when_one_breaks(proxy, upstreams, path):
    broken, sound = upstreams
    replies = [proxy.post(path, json={}, headers={"Idempotency-Key": f"key-{number}"}) for number in range(4)]
    assert [(reply.status_code, reply.text) for reply in replies] == [(200, str(sound.port))] * 4
    assert broken.seen  # else this would prove nothing
    assert len(sound.seen) == 4


@pytest.mark.parametrize("path", ["/select", "/report"])
def test_what_has_no_key_is_sent_once(proxy, upstreams, path):
    broken, sound = upstreams
    codes = [
        proxy.post(path, json={}, headers={"X-Request-Id": f"request-{number}"}).status_code for number in range(4)
    ]
    assert codes.count(502) == len(broken.seen) > 0
    assert codes.count(200) == len(sound.seen)
    assert sorted(broken.seen + sound.seen) == [f"request-{number}" for number in range(4)]


def test_what_reached_no_replica_goes_to_the_next(proxy, upstreams):
    broken, sound = upstreams
    broken.close()
    assert [proxy.post("/report", json={}).text for _ in range(4)] == [str(sound.port)] * 4


def test_a_request_without_a_name_gets_one(proxy, upstreams):
    proxy.post("/report", json={}, headers={"Idempotency-Key": "key"})
    (name,) = set(upstreams[0].seen + upstreams[1].seen)
    assert re.fullmatch("[0-9a-f]{32}", name)


def answering(proxy, run, **headers):
    """Who answers a select and a report of a run: the ports that they told."""
    return {proxy.post(path, json={}, headers={"Bots-Run": run, **headers}).text for path in ("/select", "/report")}


def test_a_run_stays_at_one_replica_and_runs_are_spread_over_all(proxy, sound_upstreams):
    homes = {run: answering(proxy, run) for run in RUNS}
    assert {len(ports) for ports in homes.values()} == {1}
    assert set().union(*homes.values()) == {str(each.port) for each in sound_upstreams}
    assert {run: answering(proxy, run, **{"Idempotency-Key": "key"}) for run in RUNS} == homes


def test_requests_that_name_no_run_are_spread_over_all_replicas(proxy, sound_upstreams):
    for _ in range(4):
        proxy.post("/select", json={})
    assert [len(each.seen) for each in sound_upstreams] == [2, 2]


def test_the_runs_of_a_dead_replica_go_to_another(proxy, upstreams):
    dead, sound = upstreams
    dead.close()
    # The test above shows that some of these runs belong to the dead one.
    assert [answering(proxy, run) for run in RUNS] == [{str(sound.port)}] * len(RUNS)


def test_the_runs_of_a_replica_that_breaks_go_to_another_with_a_key_and_are_sent_once_without(proxy, upstreams):
    broken, sound = upstreams
    assert [answering(proxy, run, **{"Idempotency-Key": "key"}) for run in RUNS] == [{str(sound.port)}] * len(RUNS)
    assert broken.seen  # else this would prove nothing

    broken.seen.clear()
    sound.seen.clear()
    codes = [proxy.post("/report", json={}, headers={"Bots-Run": run}).status_code for run in RUNS]
    assert codes.count(502) == len(broken.seen) > 0
    assert codes.count(200) == len(sound.seen) == len(RUNS) - len(broken.seen)
