"""The benchmark of comparisons: on the demo's recording, every candidate agrees with a replay under it alone."""

from benchmarks.comparing import RUNS, measure


def test_comparisons_of_the_recorded_run_agree_with_full_replays():
    rows = list(measure(steps=12, batch=8))  # asserts the agreement
    assert [row.run for row in rows] == list(RUNS)
    for row in rows:
        assert (row.comparison.steps, row.comparison.rollouts) == (12, 12 * 8 * 16)
        assert row.seconds_a_belief > 0
        same = "tracker" if row.run.startswith("tracker") else "BOTS"
        assert row.log_loss("this run") == row.log_loss(same)
