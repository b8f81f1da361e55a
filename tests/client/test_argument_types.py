"""Arguments of the wrong kind are refused before anything is sent: which one, and what it is."""

from typing import Any

import numpy as np
import pytest

from bots_client import InvalidRequestError, Outcome, ResilientClient, Selector, Task
from tests.client.answers import RECEIPT, RUN, SELECTION
from tests.client.scripted_server import answer

NOWHERE = "http://127.0.0.1:1"
ONE = Outcome.counts("t1", 7, 16)
# as a program without a type checker sees them
AnyOutcome: Any = Outcome
AnySelector: Any = Selector
AnyTask: Any = Task


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda bots: bots.report("pool", ("t1", 7, 16)), "outcomes[0]: expected Outcome, got the str 't1'"),
        (lambda bots: bots.report("pool", ONE), "outcomes: expected a list of Outcome, got the Outcome Outcome("),
        (lambda bots: bots.report([ONE], "pool"), "dataset: expected str, got the list [Outcome(task='t1', "),
        (
            lambda bots: bots.report("pool", [ONE], selection=["s-1"]),
            "selection: expected a Selection or its id, got the list ['s-1']",
        ),
        (lambda bots: bots.select(32, "pool"), "dataset: expected str, got the int 32"),
        (lambda bots: bots.select("pool", "32"), "count: expected a number, got the str '32'"),
        (lambda bots: bots.select("pool", 2, tags="math"), "tags: expected a list of str, got the str 'math'"),
        (lambda bots: bots.select("pool", 2, first=["a", 7]), "first[1]: expected str, got the int 7"),
        (lambda bots: bots.rewind("pool", "r1", 400), "run: expected str, got the int 400"),
        (lambda bots: bots.create_dataset("pool", ["t1"]), "tasks[0]: expected Task, got the str 't1'"),
        (lambda bots: bots.create_dataset("pool", [AnyTask(7)]), "id: expected str, got the int 7"),
    ],
)
def test_a_call_names_the_parameter(connect, mistake, message):
    with pytest.raises(TypeError) as caught:
        mistake(connect(NOWHERE))

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda: AnyOutcome.counts(7, 16, "t1"), "'t1' is not a number"),
        (lambda: AnyOutcome.rewards(7, [1]), "task: expected str, got the int 7"),
        (
            lambda: AnyOutcome.rewards("t1", {"a": 1}),
            "rewards of task t1: expected a list of numbers, got the dict {'a'",
        ),
        (lambda: AnyOutcome.rewards("t1", "10"), "rewards of task t1: expected a list of numbers, got the str '10'"),
        (lambda: AnySelector("pool", "default", ids=["t1"]), "client: expected ResilientClient, got the str 'pool'"),
        (lambda: AnySelector(None, "pool", ids="t1"), "ids: expected a list of str, got the str 't1'"),
        (lambda: AnySelector(None, "pool", ids=["t1", 3]), "ids[1]: expected str, got the int 3"),
        (lambda: AnySelector(None, "pool", ids=["t1"], tags="math"), "tags: expected a list of str"),
    ],
)
def test_outcomes_and_selectors_do_the_same(mistake, message, monkeypatch, tmp_path):
    monkeypatch.setenv("BOTS_SPOOL", str(tmp_path))

    with pytest.raises((TypeError, InvalidRequestError)) as caught:
        mistake()

    assert message in str(caught.value)


@pytest.mark.parametrize(
    "mistake",
    [
        lambda bots: bots.select("pool", "2", ids=["t1"]),
        lambda bots: bots.select("pool", 2, ids="t1"),
        lambda bots: bots.select("pool", 2, ids=["t1"], exclude="t1"),
        lambda bots: bots.select("pool", 2, ids=["t1"], tags="math"),
        lambda bots: bots.report("pool", ("t1", 7, 16)),
        lambda bots: bots.report([ONE], "pool"),
    ],
)
def test_a_resilient_client_refuses_a_mistake_of_the_program_at_the_first_call(mistake, tmp_path):
    with ResilientClient(NOWHERE, spool=tmp_path) as bots, pytest.raises(TypeError, match="expected"):
        mistake(bots)

    assert list(tmp_path.glob("*.db")) == []


def test_what_numpy_and_generators_give_is_taken(serve, connect):
    two: Any = np.int64(2)
    server = serve(answer(SELECTION), answer(RUN), answer({"dataset": "pool", "tasks": 1}), answer(RECEIPT))
    bots = connect(server)

    bots.select("pool", two, tags=np.array(["math"]))
    bots.rewind("pool", two)
    bots.append_tasks("pool", (Task(id_) for id_ in ["t1"]))
    bots.report("pool", (Outcome.rewards("t1", np.array([1, 0.5])) for _ in range(1)))

    sent = [b'"count":2,"tags":["math"]', b'"step":2', b'{"id":"t1"}', b'"rewards":[1,0.5]']
    assert [part in request.body for part, request in zip(sent, server.received, strict=True)] == [True] * 4


def test_content_that_cannot_be_true_stays_an_invalid_request(connect):
    with pytest.raises(InvalidRequestError):
        connect(NOWHERE).select("pool", float("nan"))
