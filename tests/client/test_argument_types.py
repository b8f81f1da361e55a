"""Arguments of the wrong kind are refused before anything is sent: which one, and what it is."""

import re
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
    ("mistake", "named"),
    [
        (lambda bots: bots.report("pool", ("t1", 7, 16)), "outcomes[0]"),
        (lambda bots: bots.report("pool", ONE), "outcomes"),
        (lambda bots: bots.report([ONE], "pool"), "dataset"),
        (lambda bots: bots.report("pool", [ONE], selection=["s-1"]), "selection"),
        (lambda bots: bots.select(32, "pool"), "dataset"),
        (lambda bots: bots.select("pool", "32"), "count"),
        (lambda bots: bots.select("pool", 2, tags="math"), "tags"),
        (lambda bots: bots.select("pool", 2, first=["a", 7]), "first[1]"),
        (lambda bots: bots.rewind("pool", "r1", 400), "run"),
        (lambda bots: bots.create_dataset("pool", ["t1"]), "tasks[0]"),
        (lambda bots: bots.create_dataset("pool", [AnyTask(7)]), "id"),
        (lambda _: AnyOutcome.rewards(7, [1]), "task"),
        (lambda _: AnyOutcome.rewards("t1", {"a": 1}), "rewards of task t1"),
        (lambda _: AnyOutcome.rewards("t1", "10"), "rewards of task t1"),
        (lambda _: AnySelector("pool", "default", ids=["t1"]), "client"),
        (lambda _: AnySelector(None, "pool", ids="t1"), "ids"),
        (lambda _: AnySelector(None, "pool", ids=["t1", 3]), "ids[1]"),
        (lambda _: AnySelector(None, "pool", ids=["t1"], tags="math"), "tags"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_named(connect, mistake, named, monkeypatch, tmp_path):
    monkeypatch.setenv("BOTS_SPOOL", str(tmp_path))

    with pytest.raises(TypeError, match=rf"^{re.escape(named)}: "):
        mistake(connect(NOWHERE))


@pytest.mark.parametrize(
    "mistake",
    [
        lambda bots: bots.select("pool", "2", ids=["t1"]),
        lambda bots: bots.select("pool", 2, ids="t1"),
        lambda bots: bots.report("pool", ("t1", 7, 16)),
    ],
)
def test_a_resilient_client_refuses_a_mistake_of_the_program_at_the_first_call(mistake, tmp_path):
    with ResilientClient(NOWHERE, spool=tmp_path) as bots, pytest.raises(TypeError):
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
