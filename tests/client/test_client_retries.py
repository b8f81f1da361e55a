"""What is tried again, under which key, after which waits, and when it ends."""

import time

import pytest

from bots_client import (
    DeadlineExceededError,
    InvalidRequestError,
    Outcome,
    Retries,
    ServiceError,
    UnreachableError,
)
from tests.client.answers import RECEIPT, SELECTION, VERSION
from tests.client.scripted_server import ScriptedServer, answer, cut_short, drop, problem, stay_silent, trickle

OUTCOMES = [Outcome.counts("math-17", 7, 16)]
AT_ONCE = Retries(first_wait_s=0)
SOON_S = 20.0  # an upper bound for what takes well under a second, on a machine that is busy


@pytest.fixture
def patient(waits):
    """Retries on a clock that only sleeping moves."""
    return Retries(attempts=4, first_wait_s=1.0, longest_wait_s=3.0, rng=lambda: 0.5, clock=waits.clock)


@pytest.mark.parametrize("failure", [drop, cut_short(b'{"seq"'), problem(503)], ids=["drop", "cut", "503"])
def test_a_write_is_sent_again_under_the_same_key_with_the_same_bytes(serve, connect, failure):
    server = serve(failure, failure, answer(RECEIPT))

    receipt = connect(server, retries=AT_ONCE).report("guru", OUTCOMES)

    first, *others = server.received
    assert receipt.seq == RECEIPT["seq"]
    assert first.key
    assert [(one.key, one.body) for one in others] == [(first.key, first.body)] * 2


def test_two_writes_have_two_keys_and_a_given_key_is_used(serve, connect):
    server = serve(answer(SELECTION))
    bots = connect(server)

    bots.select("guru", 2)
    bots.select("guru", 2)
    bots.select("guru", 2, idempotency_key="mine")

    keys = [one.key for one in server.received]
    assert len(set(keys)) == 3
    assert keys[2] == "mine"


@pytest.mark.parametrize("key", ["", "x" * 129, "new\nline", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_refused_before_anything_is_sent(connect, key):
    with pytest.raises(InvalidRequestError, match="idempotency key"):
        connect("http://127.0.0.1:1").select("guru", 2, idempotency_key=key)


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_a_busy_service_is_asked_again(serve, connect, status):
    server = serve(problem(status), answer(VERSION))

    connect(server, retries=AT_ONCE).version()

    assert len(server.received) == 2


def test_what_another_request_is_changing_is_asked_for_again(serve, connect):
    server = serve(problem(409, "busy"), answer(SELECTION))

    assert connect(server, retries=AT_ONCE).select("guru", 2).selection_id == SELECTION["selection_id"]
    assert len({one.key for one in server.received}) == 1


def test_waits_double_up_to_the_longest(serve, connect, waits, patient):
    server = serve(problem(503))

    with pytest.raises(ServiceError, match="503"):
        connect(server, retries=patient).version()

    assert waits == [0.5, 1.0, 1.5]
    assert len(server.received) == patient.attempts


@pytest.mark.parametrize("header", ["", "soon", "-1", "nan", "inf", "Tue, 24 Nov 2026 00:00:00 GMT"])
def test_a_retry_after_that_says_nothing_is_not_heeded(serve, connect, header):
    server = serve(problem(503, headers={"Retry-After": header}), answer(VERSION))

    connect(server, retries=AT_ONCE).version()

    assert len(server.received) == 2


def test_a_wait_past_the_deadline_is_not_begun(serve, connect, waits, patient):
    server = serve(problem(503, headers={"Retry-After": "60"}))

    with pytest.raises(ServiceError) as caught:
        connect(server, retries=patient, deadline_s=30).version()

    assert caught.value.retry_after_s == 60
    assert waits == []
    assert len(server.received) == 1


@pytest.mark.parametrize("act", [stay_silent, trickle])
def test_no_answer_within_the_deadline_ends_the_call(serve, connect, act):
    server = serve(act)
    began = time.monotonic()

    with pytest.raises(DeadlineExceededError):
        connect(server).within(0.3).select("guru", 2)

    assert 0.25 < time.monotonic() - began < SOON_S
    assert len(server.received) == 1


def test_a_call_without_time_is_not_sent(serve, connect):
    server = serve(answer(VERSION))

    with pytest.raises(DeadlineExceededError):
        connect(server, deadline_s=0).version()

    assert server.received == []


@pytest.mark.parametrize("deadline_s", [float("nan"), float("inf")])
def test_a_deadline_that_never_comes_is_refused(connect, deadline_s):
    with pytest.raises(ValueError, match="deadline"):
        connect("http://127.0.0.1:1", deadline_s=deadline_s).version()


def test_a_refused_connection_names_the_url_and_the_fix(serve, connect, waits, patient):
    with ScriptedServer(answer()) as gone:
        url = gone.url

    with pytest.raises(UnreachableError) as caught:
        connect(url, retries=patient).version()

    assert url in str(caught.value)
    assert "make serve" in str(caught.value)
    assert not isinstance(caught.value, DeadlineExceededError)
    assert len(waits) == patient.attempts - 1


def test_a_service_that_comes_back_meanwhile_gets_the_call(serve, connect, waits, monkeypatch):
    with ScriptedServer(answer()) as gone:
        url, port = gone.url, gone.port
    back: list[ScriptedServer] = []

    def come_back(_):
        if not back:
            back.append(serve(answer(RECEIPT), port=port))

    monkeypatch.setattr(waits, "sleep", come_back)

    receipt = connect(url, retries=AT_ONCE).report("guru", OUTCOMES)

    assert receipt.seq == RECEIPT["seq"]
    assert len(back[0].received) == 1


@pytest.mark.parametrize("arguments", [{"attempts": 0}, {"first_wait_s": -1}, {"longest_wait_s": float("inf")}])
def test_retries_that_cannot_be_are_refused(arguments):
    with pytest.raises(ValueError, match=r"attempts|waits"):
        Retries(**arguments)
