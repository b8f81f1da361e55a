"""Refused reports are counted in SQL, with the run that stands now, and a bounded reason."""

import pytest

from bots_service.errors import Flaw, InvalidInputError, UnknownRunError
from bots_service.records import RunNotes
from bots_service.usecases.refused_reports import LONGEST_REASON, reason_of
from tests.usecases.world import POOL, World


async def notes(world: World) -> RunNotes:
    run = (await world.row()).id
    return (await world.use.store.courses.notes([run]))[run]


async def test_a_report_of_a_run_that_another_replica_replaced_is_counted_with_the_new_one(world: World):
    other = world.beside()
    await other.opened()  # it remembers the run as it is
    await world.put_run("default", seed=3)
    await other.runs.count_refused_report(POOL, "default", InvalidInputError("it can't be true"))
    refused = (await notes(world)).refused
    assert refused is not None
    assert (refused.count, refused.reason) == (1, "it can't be true")
    with pytest.raises(UnknownRunError):
        await other.runs.count_refused_report(POOL, "nobody", InvalidInputError("it can't be true"))


def test_the_reason_is_the_first_flaw_with_its_field_and_never_long():
    flaws = (Flaw(("body", "outcomes", 3, "trials"), "first"), Flaw(("body",), "second"))
    assert reason_of(InvalidInputError("invalid outcomes", flaws)) == "outcomes.3.trials: first"
    assert reason_of(InvalidInputError("alone")) == "alone"
    of_a_task = Flaw(("body", "outcomes", 3), "task 't1': 5 successes of 4 trials")
    assert reason_of(InvalidInputError("invalid outcomes", (of_a_task,))) == of_a_task.what
    assert reason_of(InvalidInputError("whole", (Flaw(("body",), "no object"),))) == "no object"
    for error in (InvalidInputError("x" * 999), InvalidInputError("y", (Flaw(("body", "z"), "x" * 999),))):
        assert len(reason_of(error)) == LONGEST_REASON
