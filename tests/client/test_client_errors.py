"""Failures: which error tells whose fault it is, what is tried again, after which waits, and when it ends."""

import gzip
import pickle
import time
import tracemalloc

import pytest

from bots_client import (
    AuthenticationError,
    BotsClientError,
    ConflictError,
    DeadlineExceededError,
    FieldError,
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    Outcome,
    RequestError,
    Retries,
    ServiceError,
    StaleEpochError,
    UnreachableError,
    _http,
)
from bots_client._http import ANSWER_BYTES, LISTING_BYTES
from tests.client.answers import RECEIPT, SELECTION, VERSION
from tests.client.scripted_server import ScriptedServer, answer, cut_short, drop, pour, problem, stay_silent, trickle

ONCE = Retries(attempts=1)
SOCKET_BYTES = 16 * 2**20  # more than the two ends of a connection hold


FAULTS = {
    InvalidRequestError: (400, 413, 415, 422),
    AuthenticationError: (401,),
    ForbiddenError: (403,),
    NotFoundError: (404,),
    RequestError: (405, 418),
    ConflictError: (409,),
    ServiceError: (302, 408, 429, 500, 501, 502, 503, 504, 599),
}


@pytest.mark.parametrize(("status", "kind"), [(status, kind) for kind in FAULTS for status in FAULTS[kind]])
def test_the_status_tells_whose_fault_it_is_and_whether_another_attempt_helps(serve, connect, status, kind):
    server = serve(problem(status))
    with pytest.raises(BotsClientError) as caught:
        connect(server, retries=Retries(attempts=2, first_wait_s=0)).run("guru")
    assert type(caught.value) is kind
    assert len(server.received) == (2 if status in (408, 429, 502, 503, 504) else 1)


@pytest.mark.parametrize(
    ("status", "media_type", "content"),
    [(status, "text/html", b"<html>nginx</html>") for status in (400, 401, 403, 404, 405, 409, 413, 415, 422)]
    + [
        (404, "application/json", {"detail": "Not Found"}),
        (422, "application/problem+json", {"type": "about:blank", "title": "A gateway"}),
    ],
)
def test_a_refusal_that_is_not_the_services_own_is_not_the_requests_fault(serve, connect, status, media_type, content):
    server = serve(answer(content, status, {"Content-Type": media_type}))
    with pytest.raises(ServiceError) as caught:
        connect(server, retries=ONCE).run("guru")
    assert caught.value.status == status


def test_evidence_from_before_a_rewind_has_an_error_of_its_own(serve, connect):
    server = serve(problem(409, "stale-epoch"))
    with pytest.raises(StaleEpochError):
        connect(server).report("guru", [Outcome.aborted("math-9")], selection="s-1")


def test_an_error_carries_all_that_the_service_said(serve, connect):
    flaws = [{"loc": ["outcomes", 0, "trials"], "msg": "too few"}, {"loc": [], "msg": "and more"}]
    server = serve(problem(422, "invalid-outcomes", headers={"X-Request-Id": "r-7"}, errors=flaws))
    with pytest.raises(InvalidRequestError) as caught:
        connect(server).report("guru", [Outcome.counts("math-9", 1, 2)])
    error = caught.value
    assert (error.type, error.title, error.status) == ("urn:bots:problem:invalid-outcomes", "Some problem", 422)
    assert (error.detail, error.request_id) == ("why", "r-7")
    assert error.errors == (FieldError(("outcomes", 0, "trials"), "too few"), FieldError((), "and more"))
    assert str(error) == ("422 Some problem: why (POST /report, request r-7)\n  outcomes.0.trials: too few\n  and more")


def test_a_redirect_names_the_other_place_and_is_not_followed(serve, connect):
    server = serve(answer(b"", 307, {"Location": "https://elsewhere.example/"}))
    with pytest.raises(ServiceError, match=r"redirected to https://elsewhere\.example/"):
        connect(server).run("guru")
    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"<html>", "Expecting value"),
        (b"", "Expecting value"),
        ([], "response: expected an object"),
        ({"dataset": "guru"}, "selection_id: missing"),
        ({**SELECTION, "tasks": [{"id": 4}]}, r"tasks\.0\.id: expected a text, got '4'"),
        ({**SELECTION, "tasks": [{"id": "a", "mean": "high"}]}, r"tasks\.0\.mean: expected a number"),
        ({**SELECTION, "tasks": {}}, "tasks: expected a list"),
        ({**SELECTION, "step": True}, "step: expected a whole number"),
        ({**SELECTION, "tasks": [{"id": "a", "effective": False}]}, r"tasks\.0\.effective: expected a number"),
        ({**SELECTION, "degraded": 1}, "degraded: expected true or false"),
        (b"[" * 100_000, "(recursion|Stack overflow)"),  # Python 3.14 says the latter
    ],
)
def test_an_answer_that_makes_no_sense_is_the_services_fault(serve, connect, content, said):
    server = serve(answer(content, headers={"X-Request-Id": "r-8"}))
    with pytest.raises(ServiceError, match=f"an invalid body: .*{said}") as caught:
        connect(server).select("guru", 2)
    assert caught.value.request_id == "r-8"
    assert len(server.received) == 1


def test_a_request_that_no_connection_can_carry_is_ours(serve, connect):
    with pytest.raises(InvalidRequestError, match="can't be sent"):
        connect(serve(answer(VERSION)), headers={"X Y": "a"}).version()


def test_a_compressed_answer_is_refused_before_it_is_unpacked(serve, connect):
    server = serve(answer(gzip.compress(bytes(64 * 2**20)), headers={"Content-Encoding": "gzip"}))
    bots = connect(server)
    tracemalloc.start()
    try:
        with pytest.raises(ServiceError, match="gzip"):
            bots.version()
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert server.received[0].headers["accept-encoding"] == "identity"
    assert peak_bytes < 8 * 2**20


@pytest.mark.parametrize(
    ("ask", "bound"),
    [
        (lambda bots: bots.select("guru", 2), ANSWER_BYTES),
        (lambda bots: bots.report("guru", []), ANSWER_BYTES),
        (lambda bots: bots.run("guru"), ANSWER_BYTES),
        (lambda bots: list(bots.tasks("guru")), LISTING_BYTES),
    ],
    ids=["select", "report", "run", "a listing"],
)
@pytest.mark.parametrize("status", [200, 422])
def test_an_answer_without_end_is_read_up_to_a_bound(serve, connect, ask, bound, status):
    poured: list[int] = []
    server = serve(pour(poured, status))
    with pytest.raises(ServiceError, match="more than"):
        ask(connect(server, retries=ONCE, deadline_s=60))
    assert sum(poured) < bound + SOCKET_BYTES


def test_a_stream_has_no_bound(serve, connect):
    content = bytes(2 * LISTING_BYTES)
    assert sum(map(len, connect(serve(answer(content))).download_tasks("guru"))) == len(content)


def test_fields_that_the_service_adds_are_ignored(serve, connect):
    tasks = [{**task, "colour": "red"} for task in SELECTION["tasks"]]
    server = serve(answer({**SELECTION, "tasks": tasks, "mood": {"good": True}}))
    assert connect(server).select("guru", 2).ids == tuple(task["id"] for task in SELECTION["tasks"])


@pytest.mark.parametrize("status", [404, 503])
def test_an_error_survives_the_way_between_processes(serve, connect, status):
    server = serve(problem(status, headers={"Retry-After": "99"}))
    with pytest.raises(BotsClientError) as caught:
        connect(server, retries=ONCE).run("guru")
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert (type(copy), str(copy), vars(copy)) == (type(caught.value), str(caught.value), vars(caught.value))


OUTCOMES = [Outcome.counts("math-17", 7, 16)]
AT_ONCE = Retries(first_wait_s=0)
SOON_S = 20.0  # an upper bound for what takes well under a second, on a machine that is busy


@pytest.fixture
def patient(waits, monkeypatch):
    """Retries on a clock that only sleeping moves."""
    waits.starts_clock()
    monkeypatch.setattr(_http, "system_random", lambda: 0.5)
    return Retries(attempts=4, first_wait_s=1.0, longest_wait_s=3.0)


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


@pytest.mark.parametrize("arguments", [{"attempts": 0}, {"first_wait_s": -1}, {"longest_wait_s": float("inf")}])
def test_retries_that_cannot_be_are_refused(arguments):
    with pytest.raises(ValueError, match=r"attempts|waits"):
        Retries(**arguments)
