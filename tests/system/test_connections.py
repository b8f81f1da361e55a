"""What a connection may carry besides bodies, before a key is read: as much as callers need, and no more."""

import json
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.servers import wait_until
from tests.serving import ServiceProcess, answers, running_service

KIB = 1024
SOON_S = 30.0
HEADERS_S = 10.0  # which requests may take
GET = b"GET /livez HTTP/1.1\r\nHost: bots\r\n"
CHUNKED = GET + b"Transfer-Encoding: chunked\r\n\r\n"
OK, REFUSED = 200, 431


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with running_service(tmp_path_factory.mktemp("service"), admin_key="k" * 16) as service:
        yield service


@pytest.fixture
def connection(service: ServiceProcess) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", service.port), timeout=SOON_S) as connection:
        yield connection


def answers_on(connection: socket.socket, count: int) -> list[tuple[int, dict[str, str], Any]]:
    """Return the status, headers and document of the next answers."""
    answers: list[tuple[int, dict[str, str], Any]] = []
    with connection.makefile("rb") as file:
        while len(answers) < count and (status := file.readline().split()):
            headers = {}
            while line := file.readline().decode().strip().lower():
                name, _, headers[name] = line.partition(": ")
            answers.append((int(status[1]), headers, json.loads(file.read(int(headers["content-length"])))))
    return answers


def is_cut(connection: socket.socket) -> bool:
    try:
        while connection.recv(KIB):
            pass
    except ConnectionResetError:
        pass
    return True


def headers(count: int, length: int) -> bytes:
    return b"".join(b"%s\r\n" % (b"a%d: " % number).ljust(length - 2, b"b") for number in range(count))


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (GET + headers(40, KIB), OK),
        (GET + headers(1, 40 * KIB), OK),
        (GET + headers(250, 100), OK),
        (GET.replace(b"livez", b"livez?" + b"a" * 40 * KIB), OK),
        (GET + headers(70, KIB), REFUSED),
        (GET + headers(1, 70 * KIB), REFUSED),
        (GET + headers(300, 10), REFUSED),
        (GET.replace(b"livez", b"livez?" + b"a" * 70 * KIB), REFUSED),
    ],
)
def test_headers_have_a_limit_that_callers_do_not_meet(connection: socket.socket, head: bytes, status: int):
    connection.sendall(head + b"\r\n")
    [(answered, said, document)] = answers_on(connection, 1)
    assert answered == status
    if status == REFUSED:
        assert said["content-type"] == "application/problem+json"
        assert said["connection"] == "close"
        assert (document["type"], document["status"]) == ("urn:bots:problem:headers-too-large", REFUSED)
        assert is_cut(connection)


def test_requests_that_wait_for_answers_before_theirs_have_a_limit(connection: socket.socket):
    connection.sendall((GET + b"\r\n") * 10_000)
    answers = answers_on(connection, 34)
    assert [status for status, _, _ in answers] == [OK] * 33 + [400]  # one is answered while 32 wait
    assert answers[-1][2]["type"] == "urn:bots:problem:malformed-request"
    assert is_cut(connection)


def test_a_trailer_is_no_header(connection: socket.socket):
    whoami = b"GET /whoami HTTP/1.1\r\nHost: bots\r\nTransfer-Encoding: chunked\r\n\r\n"
    connection.sendall(whoami + b"0\r\nAuthorization: Bearer %s\r\n\r\n" % (b"k" * 16))
    assert answers_on(connection, 1)[0][0] == 401


@pytest.mark.parametrize(
    "sent",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"CONNECT bots:80 HTTP/1.1\r\nHost: bots\r\n\r\n",
        GET + b"Content-Length: x\r\n\r\n",
        GET + b"Upgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 2\r\n\r\n{}",
        CHUNKED + b"x\r\n",
        GET.replace(b"GET /livez", b"POST /report") + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}x",
    ],
)
def test_what_is_not_http_1_1_is_a_problem(connection: socket.socket, sent: bytes):
    connection.sendall(sent)
    *_, (status, said, document) = answers_on(connection, 2)
    assert (status, document["type"]) == (400, "urn:bots:problem:malformed-request")
    assert (said["content-type"], said["connection"]) == ("application/problem+json", "close")
    assert is_cut(connection)


def test_idle_connections_make_room_for_others(tmp_path: Path):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    service = ServiceProcess(tmp_path)
    resource.setrlimit(resource.RLIMIT_NOFILE, (400, limits[1]))
    try:
        service.launch()  # which inherits it
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    try:
        service.await_ready()
        with ExitStack() as stack:
            for _ in range(600):
                stack.enter_context(socket.create_connection(("127.0.0.1", service.port)))
            wait_until(lambda: answers(f"{service.url}/livez"))
    finally:
        service.stop()


def test_what_comes_drop_by_drop_has_an_end(service: ServiceProcess):
    drops = [(GET, b"a: b\r\n"), (b"GET /", b"b"), (b"", b"\r\n"), (CHUNKED + b"0\r\n", b"a: b\r\n"), (CHUNKED, b"0")]
    began = time.monotonic()
    lasted_s: dict[int, float] = {}
    slow = {number: socket.create_connection(("127.0.0.1", service.port)) for number in range(len(drops))}
    for number, (begin, _) in enumerate(drops):
        slow[number].sendall(begin)
    while len(lasted_s) < len(drops) and time.monotonic() - began < SOON_S:
        time.sleep(0.2)
        for number in slow.keys() - lasted_s.keys():
            try:
                slow[number].sendall(drops[number][1])
            except OSError:
                lasted_s[number] = time.monotonic() - began
    for connection in slow.values():
        connection.close()
    assert len(lasted_s) == len(drops)
    assert HEADERS_S <= min(lasted_s.values()) <= max(lasted_s.values()) < 1.5 * HEADERS_S
