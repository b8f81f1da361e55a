"""What the demo shows."""

from datetime import UTC, datetime

import pytest
from rich.console import Console

from bots_client import Gain, RunSummary
from bots_service.cli.replay_display import LivePanel, closing_table, headline
from bots_service.demo.replay import ROLLOUTS, Course, Plan, ReplayedRun

STEPS = 100
EFFECTIVE = {"uniform": 4, "tracker-thompson": 8, "tracker-pass": 7}


def replay_after(done, problems=890, factors=(None, 2.0, 1.75)):
    met = {f"problem-{number}" for number in range(55)}
    courses = {label: Course(label, [8] * done, [found] * done, [0.5], met) for label, found in EFFECTIVE.items()}
    spent = done * 8 * ROLLOUTS
    summaries = {
        label: RunSummary(
            dataset="d",
            run=label,
            created_at=datetime.now(UTC),
            status="running",
            reported=8 * done,
            effective=found * done,
            rollouts=spent,
            effective_task_ratio=found / 8,
            gain=None
            if factor is None
            else Gain(source="measured", factor=factor, rollouts_saved=spent * (factor - 1), rollouts_spent=spent),
        )
        for (label, found), factor in zip(EFFECTIVE.items(), factors, strict=True)
    }
    plan = Plan(STEPS, 8, 0)
    return ReplayedRun(plan, "d", problems=problems, referenced=678, courses=courses, summaries=summaries)


def shown(renderable, width=80):
    console = Console(width=width, color_system=None, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    console.print(renderable)
    text = console.export_text()
    console.file.close()
    return text


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_live_panel_fits_the_terminal_at_every_step(width):
    for done in (1, 37, STEPS):
        text = shown(LivePanel(replay_after(done)), width)
        assert max(map(len, text.splitlines())) <= min(width, 80)
        assert f"step {done} of {STEPS}" in text
        assert "all 890 problems" in text
        assert "1.75x vs uniform" in text
        # All of one run's are effective: a full mark for every part of the run that is done.
        assert text.count("█") >= done * min(50, min(width, 80) - 22) // STEPS


def test_the_closing_table_has_a_row_for_each_run_of_each_replay():
    text = shown(closing_table([replay_after(STEPS), replay_after(STEPS, problems=678)]))
    rollouts = STEPS * 8 * ROLLOUTS
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "678 with both references" in text
    rows = [line.split() for line in text.splitlines()]
    assert rows.count(["uniform", "0.500", "0.500", "baseline", "-", "55", "0.500"]) == 2
    assert rows.count(["tracker-thompson", "1.000", "1.000", "2.00x", f"{rollouts:,}", "55", "0.500"]) == 2
    assert rows.count(["tracker-pass", "0.875", "0.875", "1.75x", f"{rollouts * 3 // 4:,}", "55", "0.500"]) == 2


def test_the_headline_is_the_gain_of_the_default_and_says_why_a_larger_one_is_no_better():
    found = headline(replay_after(STEPS))
    assert found.startswith("tracker-pass")
    assert "+75% effective tasks" in found.partition(".")[0]
    assert f"{STEPS * 8 * ROLLOUTS:,} rollouts" in found
    assert "tracker-thompson (+100%)" in found
    assert "no better training" in found
    fewer = headline(replay_after(STEPS, factors=(None, 0.8, 0.9)))
    assert "-10% effective tasks" in fewer
    assert "thompson" not in fewer
    assert "no effective task" in headline(replay_after(STEPS, factors=(None, None, None)))
