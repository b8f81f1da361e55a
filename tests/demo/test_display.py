"""What the demo shows."""

from rich.console import Console

from bots_service.demo.display import LEVELS, closing_table, live_panel, progress_line
from bots_service.demo.replay import Course, Plan, ReplayedRun

STEPS = 100


def replay_after(done):
    bots = Course("bots", [8] * done, [8] * done, [0.5] * done)
    uniform = Course("uniform", [8] * done, [4] * done, [0.25] * done)
    return ReplayedRun(Plan(STEPS, 8, 0), "d", problems=90, referenced=60, bots=bots, uniform=uniform)


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
        assert "all 90 problems" in text
        assert text.count(LEVELS[-1]) >= done // 2  # BOTS solves everything: a full mark for every second step


def test_the_closing_table_fits_80_columns_and_has_a_column_for_each_replay():
    text = shown(closing_table([replay_after(STEPS), replay_after(STEPS)]))
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("2.00") == 2


def test_a_log_gets_a_line():
    assert progress_line(replay_after(37)) == "all 90 problems, step 37 of 100: BOTS 1.000, uniform 0.500"
