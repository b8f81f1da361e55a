"""What the demo shows."""

from datetime import UTC, datetime

import pytest
from rich.console import Console

from bots_client import Gain, RunSummary
from bots_service.cli.replay_display import LivePanel, closing_table, headline, progress_line
from bots_service.demo.replay import ROLLOUTS, Course, Plan, ReplayedRun

STEPS = 100
EFFECTIVE = {"uniform": 4, "BOTS": 7, "tracker": 8}


def replay_after(done, problems=890, factors=(None, 1.75, 2.0)):
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
        # All of the tracker's are effective: a full mark for every part of the run that is done.
        assert text.count("█") >= done * min(50, width - 14) // STEPS


def test_the_closing_table_has_a_row_for_each_run_of_each_replay():
    text = shown(closing_table([replay_after(STEPS), replay_after(STEPS, problems=678)]))
    rollouts = STEPS * 8 * ROLLOUTS
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "678 with both references" in text
    rows = [line.split() for line in text.splitlines()]
    assert rows.count(["uniform", "0.500", "0.500", "baseline", "-", "55", "0.500"]) == 2
    assert rows.count(["BOTS", "0.875", "0.875", "1.75x", f"{rollouts * 3 // 4:,}", "55", "0.500"]) == 2
    assert rows.count(["tracker", "1.000", "1.000", "2.00x", f"{rollouts:,}", "55", "0.500"]) == 2


def test_the_headline_says_how_many_more_or_fewer_effective_tasks_each_run_found():
    compared = f"for the same {STEPS * 8 * ROLLOUTS:,} rollouts, compared with uniform sampling"
    assert headline(replay_after(STEPS)) == f"Effective tasks {compared}: BOTS +75%, tracker +100%."
    fewer = headline(replay_after(STEPS, factors=(None, 0.9, 2.0)))
    assert fewer == f"Effective tasks {compared}: BOTS -10%, tracker +100%."
    assert "no effective task" in headline(replay_after(STEPS, factors=(None, None, None)))


def test_a_log_gets_a_line():
    line = progress_line(replay_after(37))
    assert line == "all 890 problems, step 37 of 100: uniform 0.500, BOTS 0.875, tracker 1.000"
