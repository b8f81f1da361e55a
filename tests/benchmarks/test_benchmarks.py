"""The benchmarks run, say what they measured, and keep it."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.bench import LoadRow, ShareRow
from benchmarks.chart import draw_chart
from benchmarks.cluster import SERVICES, STAYING, ClusterRow
from benchmarks.kernels import KernelRow
from benchmarks.page import write_page
from benchmarks.parts import OTHER, SERVICE
from benchmarks.recovery import RecoveryRow, count_lost
from benchmarks.results import Results
from benchmarks.service import FULL
from benchmarks.targets import Target, check_targets
from benchmarks.timing import TURN, Patience, Timing, in_turn
from benchmarks.trinity import Topk

ROOT = Path(__file__).parents[2]
OURS = Timing(median_ms=2.0, min_ms=1.0, max_ms=3.0, repeats=5)
SELECT = KernelRow(
    "select 512", "k/16", 10**6, 289, 0, 0, 0, OURS, replace(OURS, median_ms=3.0), replace(OURS, median_ms=30.0)
)
LOAD = LoadRow("report 32", 10**5, 50, 64, 100, p50_ms=5.0, p99_ms=9.0, per_second=1200.0, client_share=0.1)
SHARE = ShareRow(10**5, 32, 100, select_ms=2.0, report_ms=3.0, share=5e-3 / 30)
SHARED = ClusterRow(
    STAYING, 60, replace(LOAD, p50_ms=15.0, per_second=900.0, processors_ms={"service": 4.0}), embedded=LOAD
)
KILL = RecoveryRow(10**5, 50, 60, reports=800, lost=0, stores_s=1.0, ready_s=4.0, answered_s=6.0)


def test_a_quick_run_measures_every_part_and_keeps_the_figures(tmp_path):
    command = [sys.executable, "-m", "benchmarks", "all", "--quick", "--alone", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    for heading in ("Kernels", "Service", "Share", "Cluster", "Recovery", "Targets"):
        assert heading in done.stdout
    [kept] = tmp_path.glob("*.json")
    parts = json.loads(kept.read_text())["parts"]
    assert set(parts) == {"kernels", "service", "share", "cluster", "recovery", "profiles", "targets"}
    assert all(row["ours"]["min_ms"] > 0 for row in parts["kernels"]["rows"])
    assert all(row["requests"] > 0 for row in parts["service"]["rows"])
    assert all(row["select_ms"] > 0 for row in parts["share"]["rows"])
    cluster = parts["cluster"]["rows"]
    services = {"2 embedded, apart", "2 services", "2 services, runs stay", "2 workers"}
    assert {row["place"] for row in cluster} == {"embedded", *services}
    assert all(row["requests"] > 0 and row["p50_ratio"] > 0 and row["processor_ms"] > 0 for row in cluster)
    assert all(row["reports"] > 0 == row["lost"] and row["ready_s"] > 0 for row in parts["recovery"]["rows"])
    assert_all_that_was_missed_is_profiled(parts, done.stdout)


def assert_all_that_was_missed_is_profiled(parts, said):
    profiles = parts["profiles"]["rows"]
    kernels, loads = ([row for row in profiles if row["of"] == kind] for kind in ("kernel", "load"))
    missed = [row["promise"] for row in parts["targets"]["rows"] if not row["reached"]]
    assert missed == [profile["promise"] for profile in profiles]
    assert all(f"{promise}: One " in said for promise in missed)
    for load in loads:
        assert {"service", "callers"} <= set(load["processors_ms"])
        assert bool(load["shares"]) != bool(load["problem"])
        known = {part.name for part in SERVICE}
        assert set(load["shares"]) <= {*known, OTHER}
    assert any({"PostgreSQL", "Redis"} <= set(load["processors_ms"]) for load in loads)
    for profile in [*kernels, *(load for load in loads if load["shares"])]:
        assert abs(sum(profile["shares"].values()) - 1) < 1e-9


def test_calls_are_timed_in_turn_after_one_round_that_does_not_count():
    order: list[str] = []
    timings = in_turn([lambda: order.append("a"), lambda: order.append("b")], Patience(seconds=0, fewest=3, most=9))
    assert order == ["a", "b", *"a" * TURN, *"b" * TURN]
    assert [timing.repeats for timing in timings] == [TURN, TURN]


def test_a_target_is_reached_missed_or_not_measured():
    measured = {target.promise: target for target in check_targets([SELECT], [replace(LOAD, per_second=999.0)], [], [])}
    assert measured["select, 1e6, fresh"].measured == 15.0
    assert measured["select, 1e6, fresh"].reached is True
    assert measured["select 512 by the tracker, 1e6"].measured == 1.5
    assert measured["report(32) over HTTP"].reached is False
    assert measured["select, 1e7, any history"].reached is None
    assert Target("latency", 5, False, "ms", 4.0).reached is True


def test_the_least_favourable_case_decides():
    slower = replace(SELECT, references="real", theirs=replace(OURS, median_ms=1.0))
    [target] = [
        target for target in check_targets([SELECT, slower], [], [], []) if "512 nowhere slower" in target.promise
    ]
    assert (target.measured, "real" in target.where) == (0.5, True)


def test_growth_with_the_pool_is_that_of_the_belief_that_suffers_more_after_the_same_history():
    small = replace(SELECT, operation="pass 512", references="real", tasks=10**5, tracker=OURS)
    large = replace(small, tasks=10**7, tracker=replace(OURS, median_ms=5.0))
    others = [replace(large, batch=32, tracker=replace(OURS, median_ms=99.0)), replace(large, references="k/16")]
    measured = {target.promise: target for target in check_targets([small, large, *others], [], [], [])}
    grown = measured["pass, real pass rates, at 1e7 compared with 1e5"]
    assert (grown.measured, grown.reached) == (5.0 / 2.0, True)
    assert grown.where.endswith("tracker")
    assert measured["pass of 512, 1e7, real pass rates"].measured == 30.0 / 2.0


def test_selections_of_one_task_have_targets_of_their_own():
    alone = replace(LOAD, operation="select 1", runs=1, callers=1, p50_ms=3.0, per_second=300.0)
    crowds = [replace(alone, callers=64, per_second=500.0), replace(alone, runs=50, callers=64, per_second=450.0)]
    measured = {target.promise: target for target in check_targets([], [alone, *crowds], [], [])}
    assert (measured["select(1) over HTTP, 1e5, p50"].measured, measured["select(1) over HTTP, 1e5"].measured) == (
        3,
        450,
    )
    assert measured["select(1) over HTTP, 1e5"].where == "64 callers, 50 runs"
    assert measured["select(32) over HTTP, 1e5"].measured is None


def test_loads_of_one_task_come_next_to_the_others_with_the_fewest_and_the_most_callers():
    assert FULL.selects[:4] == [(1, 1, 1), (1, 1, 64), (1, 50, 1), (1, 50, 64)]
    assert FULL.selects[4:] == FULL.reports
    assert len(FULL.reports) == len(FULL.counts) * len(FULL.runs) * len(FULL.callers)


def test_a_part_that_was_not_measured_now_keeps_its_figures(tmp_path):
    first = Results(quick=True, kernels=[SELECT]).save(tmp_path)
    second = Results(quick=True, service=[LOAD, SHARE]).save(tmp_path)
    assert first == second
    parts = json.loads(second.read_text())["parts"]
    assert parts["kernels"]["rows"][0]["times_faster"] == 15.0
    assert parts["service"]["rows"][0]["per_second"] == 1200.0
    assert {row["promise"]: row["reached"] for row in parts["targets"]["rows"]}["select, 1e6, fresh"] is True


def test_the_stand_in_for_topk_finds_the_best_in_order():
    scores = np.random.default_rng(4).random(1000)
    assert Topk.topk(Topk.from_numpy(scores), 20).indices.tolist() == np.argsort(-scores)[:20].tolist()


def test_equal_figures_give_equal_charts(tmp_path):
    for name in ("one.svg", "two.svg"):
        draw_chart([SELECT, replace(SELECT, tasks=10**7)], [LOAD, replace(LOAD, callers=16)], tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert "select 512 tasks" in (tmp_path / "one.svg").read_text()


def test_requests_a_second_are_drawn_for_the_smallest_pool_alone(tmp_path):
    loads = [LOAD, replace(LOAD, callers=16)]
    draw_chart([], loads, tmp_path / "one.svg")
    draw_chart([], [*loads, replace(LOAD, tasks=10 * LOAD.tasks, per_second=1e6)], tmp_path / "two.svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_sharing_is_told_as_a_multiple_of_the_embedded_default(tmp_path):
    assert (SHARED.p50_ratio, SHARED.per_second_ratio) == (3.0, 0.75)
    kept = Results(quick=True, stores="PostgreSQL 18", cluster=[SHARED]).save(tmp_path)
    part = json.loads(kept.read_text())["parts"]["cluster"]
    assert part["stores"] == "PostgreSQL 18"
    assert [(row["place"], row["per_second"], row["per_second_ratio"]) for row in part["rows"]] == [
        (STAYING, 900.0, 0.75)
    ]


def test_only_two_services_decide_what_was_promised_of_them():
    alone = replace(SHARED, place="embedded", load=replace(LOAD, per_second=1.0))
    wandering = replace(SHARED, place=SERVICES, load=replace(LOAD, per_second=2.0))
    measured = {target.promise: target for target in check_targets([], [], [alone, wandering, SHARED], [KILL])}
    assert measured["report(32), 2 services"].measured == 900.0
    assert measured["report(32), 2 services"].reached is False
    assert measured["select(32), 2 services, 1e5"].reached is None


def test_the_slowest_and_the_most_lossy_kill_decide():
    kills = [replace(KILL, ready_s=11.0), replace(KILL, lost=1), KILL]
    measured = {target.promise: target for target in check_targets([], [], [], kills)}
    assert (measured["ready after kill -9 of all"].measured, measured["ready after kill -9 of all"].reached) == (
        11.0,
        False,
    )
    assert measured["acknowledged reports lost then"].measured == 1
    assert measured["acknowledged reports lost then"].reached is False


def test_a_report_is_lost_if_a_later_selection_lacks_it():
    assert count_lost({"a": [1, 2, 3], "b": [7]}, {"a": 1, "b": 7}) == 2


def test_the_page_shows_every_part(tmp_path):
    page = tmp_path / "page.md"
    everything = Results(False, "numpy", [SELECT], [LOAD, SHARE], "PostgreSQL 18", [SHARED], [KILL])
    write_page(everything, page)
    rows = page.read_text().splitlines()
    assert "| report 32 | 50 | 64 | 2 services, runs stay | 15.00 | 9.00 | 900 | 3.00 | 0.75 | 4.00 |" in rows
    assert "| 100,000 | 50 | 60 | 800 | 0 | 1.0 s | 4.0 s | 6.0 s |" in rows
    assert "| ready after kill -9 of all | at most 10 s | 4.00 s | slowest of 1 | reached |" in rows
