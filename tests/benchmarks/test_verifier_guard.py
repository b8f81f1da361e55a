"""What an outage of a verifier costs, and how often an alarm is false: short forms, and the tables on the page."""

import json
from pathlib import Path

import pytest

from benchmarks import false_alarms, first_pass, verifier_outage
from benchmarks.false_alarms import CASES, AlarmCount, counted
from benchmarks.first_pass import NO_TAG, FirstPass, walked
from benchmarks.verifier_outage import ARMS, BELIEFS, OutageScore, after_outage
from studies.public_pools import recorded_run, without_references

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/verifier-guard.md").read_text("utf-8")


def kept(name: str) -> list[dict[str, object]]:
    lines = (ROOT / f"benchmarks/results/{name}.ndjson").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


OUTAGES = [OutageScore(**one) for one in kept("verifier_outage")]  # type: ignore[arg-type]  # as it was written
COUNTS = [AlarmCount(**one) for one in kept("false_alarms")]  # type: ignore[arg-type]  # as it was written
PASSES = [FirstPass(**one) for one in kept("first_pass")]  # type: ignore[arg-type]  # as it was written


def test_the_guard_spares_the_belief_most_of_an_outage():
    world = verifier_outage.world_of(recorded_run())
    none, without, guarded = (after_outage(world, arm, "tracker", 0) for arm in ARMS)
    assert guarded[2] in (1, 2, 3)
    assert abs(guarded[0] - none[0]) < 0.5 * (without[0] - none[0])


@pytest.mark.parametrize("references", verifier_outage.REFERENCES)
def test_what_was_kept_shows_that_an_outage_costs_the_tracker_nothing(references: str):
    by_arm = {
        arm: [one.log_loss for one in OUTAGES if (one.arm, one.belief, one.references) == (arm, "tracker", references)]
        for arm in ARMS
    }
    none, without, guarded = (sum(by_arm[arm]) / len(by_arm[arm]) for arm in ARMS)
    assert without - none > 0.006
    assert guarded - none < 0.0


def test_every_outage_raised_an_alarm_within_three_steps():
    guarded = [one for one in OUTAGES if one.arm == ARMS[2]]
    assert len(guarded) >= 5 * len(BELIEFS)
    assert all(one.alarm_after in (1, 2, 3) for one in guarded)


@pytest.mark.parametrize("course", ["a trainer turns to hopeless tasks", "a filter turns to hopeless tasks"])
def test_a_turn_to_hopeless_tasks_raises_no_alarm(course: str):
    world = false_alarms.world_of(without_references(recorded_run()))
    assert counted(world, CASES[course], "tracker", 0, 40)[0] == 0
    found = [one for one in COUNTS if one.course == course]
    assert found
    assert not any(one.alarms for one in found)


def test_an_outage_late_in_the_first_pass_is_seen_and_no_alarm_is_false():
    world = false_alarms.world_of(recorded_run())
    known, alarm_after, _, alarms, _ = walked(world, "tracker", 0, "tag 0", 9)
    assert known > 60
    assert alarm_after in (1, 2, 3)
    assert alarms == 0
    known, alarm_after, steps, alarms, _ = walked(first_pass.by_hardness(recorded_run(), 8), "bots", 0, NO_TAG, 1000)
    assert (known, alarm_after, alarms) == (0, None, 0)
    assert steps > 9
    assert not any(one.alarms for one in PASSES)
    last = [one for one in PASSES if (one.pool, one.broken_from) in (("recorded run", 9), ("reasoning gym", 30))]
    assert sum(one.alarm_after is not None for one in last) > 0.8 * len(last)


def test_the_page_shows_the_figures_that_were_kept():
    assert verifier_outage.table(OUTAGES) in PAGE
    assert false_alarms.table(COUNTS) in PAGE
    assert first_pass.outages_table(PASSES) in PAGE
    assert first_pass.false_table(PASSES) in PAGE
    unbroken = [one for one in PASSES if one.broken_from is None]
    steps, waits = (sum(getattr(one, name) for one in unbroken) for name in ("steps", "waits"))
    assert f"No alarm was false in {len(unbroken)} passes. In {waits} of {steps:,} steps groups began to wait" in PAGE
