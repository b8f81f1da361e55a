"""What the demo shows."""

from rich.console import Console

from bots_service.demo.display import LEVELS, closing_table, live_panel, progress_line
from bots_service.demo.replay import ROLLOUTS, Course, Plan, ReplayedRun

STEPS = 100


def replay_after(done, problems=890):
    effective = {"uniform": 4, "BOTS": 7, "tracker": 8}
    met = {f"problem-{number}" for number in range(55)}
    courses = {label: Course(label, [8] * done, [found] * done, [0.5], met) for label, found in effective.items()}
    return ReplayedRun(Plan(STEPS, 8, 0), "d", problems=problems, referenced=678, courses=courses)


def shown(renderable):
    console = Console(width=80, color_system=None, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    console.print(renderable)
    text = console.export_text()
    console.file.close()
    return text


def test_the_live_panel_fits_80_columns_at_every_step():
    for done in (1, 37, STEPS):
        text = shown(live_panel(replay_after(done)))
        assert max(map(len, text.splitlines())) <= 80
        assert f"step {done} of {STEPS}" in text
        assert "all 890 problems" in text
        assert (
            text.count(LEVELS[-1]) >= done // 2
        )  # all of the tracker's are effective: a full mark for every second step


def test_the_closing_table_fits_80_columns_and_has_a_row_for_each_run_of_each_replay():
    text = shown(closing_table([replay_after(STEPS), replay_after(STEPS, problems=678)]))
    rollouts = STEPS * 8 * ROLLOUTS
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "678 with both references" in text
    rows = [line.split() for line in text.splitlines()]
    assert rows.count(["uniform", "0.500", "0.500", "1.00", "0", "55", "0.500"]) == 2
    assert rows.count(["BOTS", "0.875", "0.875", "1.75", f"{rollouts * 3 // 4:,}", "55", "0.500"]) == 2
    assert rows.count(["tracker", "1.000", "1.000", "2.00", f"{rollouts:,}", "55", "0.500"]) == 2


def test_a_log_gets_a_line():
    line = progress_line(replay_after(37))
    assert line == "all 890 problems, step 37 of 100: uniform 0.500, BOTS 0.875, tracker 1.000"
