"""Verdicts on runs: what this process keeps of them, and what is never judged."""

import pytest

from bots_service.errors import UnknownRunError
from bots_service.usecases import judge_run
from tests.usecases.world import POOL, World, outcome


async def verdict_on(world: World, run: str) -> tuple[str, str]:
    found = await world.use.judge_run(POOL, run)
    return found.verdict.kind, found.verdict.reason


async def test_what_is_kept_of_runs_is_bounded_and_a_run_that_left_is_judged_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(judge_run, "KEPT", 1)
    for run in ("a", "b"):
        await world.put_run(run)
        await world.report(outcome("t1", 8), run=run)
    first = await verdict_on(world, "a")
    assert await verdict_on(world, "b") == first  # both had the same report
    assert await verdict_on(world, "a") == first


async def test_a_run_that_stands_still_is_judged_by_what_is_known_of_it(world: World):
    await world.report(outcome("t1", 8))
    first = await verdict_on(world, "default")
    world.sql("DELETE FROM receipts")
    assert await verdict_on(world, "default") == first


async def test_a_run_that_goes_from_easy_tasks_to_hard_ones_has_no_suspect_verifier(world: World):
    for run, strategy in (("rising", "easy_to_hard"), ("mixed", "uniform")):
        await world.put_run(run, strategy=strategy)
        for step in range(20):
            easy = step < 12  # then others, which fail
            tasks = range(20) if easy else range(20, 40)
            await world.report(*(outcome(f"t{task}", 16 if easy else 0) for task in tasks), run=run)
    assert (await verdict_on(world, "mixed"))[0] == "verifier_suspect"
    assert (await verdict_on(world, "rising"))[0] != "verifier_suspect"


async def test_a_run_that_is_not_there_has_no_summary(world: World):
    with pytest.raises(UnknownRunError):
        await world.use.summarize_runs.one(POOL, "nobody")
