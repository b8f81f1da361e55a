"""What bounds the promises that are not reached: profiles of kernels, samples of services, and the words for both."""

import asyncio
import json
import sys
from dataclasses import replace

import pytest

from benchmarks.bench import LoadRow
from benchmarks.bounds import bounds
from benchmarks.kernels import KernelRow, Kind
from benchmarks.load import RefusedError
from benchmarks.page import write_page
from benchmarks.parts import KERNELS, OTHER, Map, Part, samples_by_part, shares, time_by_part
from benchmarks.profiles import KernelProfile, LoadProfile, profile_kernel, profile_load
from benchmarks.results import Results
from benchmarks.sampling import Samples, problem_of, sampling, stack_of
from benchmarks.targets import KernelCase, Target
from benchmarks.timing import Timing
from tests.benchmarks.test_benchmarks import KILL, LOAD, SELECT, SHARE, SHARED

OPERATIONS = ("update 512", "update 32", "fold 32", "select 512", "pass 512")
MS = Timing(median_ms=0.5, min_ms=0.4, max_ms=0.6, repeats=5)
KERNEL = KernelProfile(
    "update of 32",
    "1e4",
    ms=0.5,
    profiled_ms=0.7,
    may_take_ms=0.1,
    calls=500.0,
    numpy_calls=200.0,
    long_calls=0,
    long_share=0.0,
    shares={"fold": 0.6, "guard": 0.4},
)
MISSED = LoadProfile(
    "report(32) over HTTP",
    "64 callers, 50 runs",
    per_second=400.0,
    wanted=1000.0,
    processors_ms={"service": 2.0, "callers": 0.5},
    services=1,
    cores=2,
    samples=100,
    shares={"fold": 0.75, "SQL": 0.24, "draw": 0.01},
)


def kernel_profile(operation: str, belief: Kind) -> KernelProfile:
    row = KernelRow(operation, "k/16", 10**4, 289, 3, 32, 90, MS, MS, None)
    case = KernelCase(row, belief)
    return profile_kernel(Target("promise", 2, True, "x", 1.0, "here", case), case)


@pytest.mark.parametrize("belief", ["ours", "tracker"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_parts_of_a_kernel_are_known_and_add_up_to_all_of_it(operation: str, belief: Kind):
    found = kernel_profile(operation, belief)
    kernel = KERNELS[operation.split(maxsplit=1)[0]]
    assert sum(found.shares.values()) == pytest.approx(1)
    assert set(found.shares) <= {kernel.own, OTHER, *(part.name for part in kernel.parts)}
    assert found.shares.get(OTHER, 0) < 0.05, "a module of the core has no part yet: give it one in benchmarks/parts.py"
    assert 0 < found.numpy_calls < found.calls
    assert (found.ms, found.may_take_ms) == (0.5, 0.25)


def test_an_update_is_told_apart_from_the_fold_that_it_does():
    parts = kernel_profile("update 512", "ours").shares
    assert {"fold of the belief", "guard of the verifier", "tallies", "scores (Brier, log loss)"} <= set(parts)


def test_modules_that_put_parts_together_share_their_calls_out_and_keep_their_own_time():
    """Each call counts once, whatever it calls in turn; what libraries do is the time of who calls them."""
    kernel = Map("own", ("core/state",), (Part("guard", ("core/guard/",)), Part("fold", ("core/belief/",))))
    state, guard = ("/x/bots_service/core/state.py", 1, "advance"), ("/x/bots_service/core/guard/guard.py", 2, "after")
    belief, numpy = ("/x/bots_service/core/belief/bots.py", 3, "fold"), ("/y/numpy/_core/numeric.py", 4, "full")
    new = ("/x/bots_service/core/brand_new.py", 5, "work")
    calls = {
        state: (1, 1, 0.5, 10.5, {}),
        guard: (1, 1, 1.0, 3.0, {state: (1, 1, 1.0, 3.0)}),
        belief: (2, 2, 4.0, 6.0, {state: (1, 1, 2.5, 4.0), guard: (1, 1, 1.5, 2.0)}),
        numpy: (2, 2, 3.0, 3.0, {state: (1, 1, 1.0, 1.0), belief: (1, 1, 2.0, 2.0)}),
        new: (1, 1, 2.0, 2.0, {state: (1, 1, 2.0, 2.0)}),
    }
    assert time_by_part(calls, kernel) == {"own": 0.5 + 1.0, "guard": 3.0, "fold": 4.0, OTHER: 2.0}
    assert sum(time_by_part(calls, kernel).values()) == sum(own for _, _, own, *_ in calls.values())


def test_a_sample_counts_where_its_innermost_known_function_belongs_or_where_the_core_was_entered():
    stacks = [
        "main (bots_service/api/app.py);run (uvicorn/server.py);dumps (json/__init__.py) 3",
        "main (uvicorn/server.py);pick (bots_service/usecases/select_tasks.py);draw (bots_service/core/draw/draws.py);"
        "sample (bots_service/core/belief/betas.py);sum (numpy/_core/fromnumeric.py) 5",
        "run (threading.py);advance (bots_service/core/state.py);fold (bots_service/core/belief/bots.py) 7",
        "run (threading.py);commit (sqlalchemy/engine/base.py) 11",
        "<module> (elsewhere.py) 2",
    ]
    counted = samples_by_part(map(stack_of, stacks))
    assert counted == {"HTTP and parsing": 3, "draw": 5, "fold": 7, "SQL": 11, OTHER: 2}
    assert shares({"a": 1, "b": 3, "c": 0}) == {"b": 0.75, "a": 0.25}


async def sampled(*command: str) -> Samples:
    samples = Samples()
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    await process.stdout.readline()
    try:
        async with sampling(process.pid, samples):
            await asyncio.sleep(0.5)
    finally:
        process.kill()
        await process.wait()
    return samples


async def test_a_running_process_is_sampled_or_it_is_said_why_not():
    spin = "def spin():\n  print('spins', flush=True)\n  while True: pass\nspin()"
    samples = await sampled(sys.executable, "-c", spin)
    if samples.problem:  # as in a container without SYS_PTRACE
        assert not samples.stacks
        return
    assert "spin" in {function for stack, _ in samples.stacks for _, function in stack}
    assert sum(count for _, count in samples.stacks) > 0


async def test_what_is_not_python_has_a_problem_in_place_of_samples():
    samples = await sampled("sh", "-c", "echo runs; exec sleep 60")
    assert samples.stacks == []
    assert samples.problem


async def test_without_py_spy_the_load_runs_all_the_same(monkeypatch, tmp_path):
    monkeypatch.setattr("benchmarks.sampling.SPY", tmp_path / "py-spy")
    samples = await sampled("sh", "-c", "echo runs; exec sleep 60")
    assert samples.problem == "py-spy did not start (No such file or directory)"


async def test_a_load_that_fails_when_it_is_repeated_loses_no_figures():
    async def refuse(_: object) -> None:
        raise RefusedError("POST /report answered 503")

    load = replace(LOAD, per_second=400.0, processors_ms={"service": 2.0})
    target = Target("report(32) over HTTP", 1000, True, "/s", 400.0, "here", load)
    found = await profile_load(target, load, [1], refuse)
    assert found.problem == "the load failed when it was repeated (POST /report answered 503)"
    assert (found.processors_ms, found.wanted, found.shares) == ({"service": 2.0}, 1000, {})


def test_of_what_py_spy_says_the_error_is_kept_without_its_advice():
    assert problem_of("py-spy> Sampling\nError: Permission Denied.\nReason: try sudo\n") == "Permission Denied"
    assert problem_of("Gone.\n\n") == "Gone"
    assert problem_of("") == "it said nothing"


def text(profile: KernelProfile | LoadProfile) -> str:
    [(promise, words)] = bounds([Target(profile.promise, 1, True, "x", 0.5)], [profile])
    assert promise == profile.promise
    return words


def test_a_kernel_is_bound_by_its_calls_and_has_room_for_few():
    words = text(KERNEL)
    assert "takes 0.50 ms (1e4; with the profiler, at best, 0.70 ms). The promise allows 0.10 ms." in words
    assert "500 calls of functions, 200 of them numpy's. The number of short calls bounds it" in words
    assert "1.0 µs on average, and the promise has room for 100." in words
    assert words.endswith("Share of the time: fold 60%, guard 40%.")


def test_a_kernel_is_bound_by_long_arrays_where_few_calls_take_most_of_the_time():
    words = text(replace(KERNEL, long_calls=3.0, long_share=0.8))
    assert "Work on long arrays bounds it: 3 calls of more than 50 µs take 80% of the time." in words
    assert "short calls" not in words


def test_a_load_is_bound_by_the_processor_by_its_one_process_or_by_waiting():
    busy = text(replace(MISSED, per_second=750.0))
    assert "750 a second keep 1.88 of 2 cores busy. The processor bounds it: here, 800 a second are the most." in busy
    assert "1,000 a second leave 2.00 ms for a request." in busy
    assert "With a core of its own, the service could do at most 500 a second." in busy
    assert "the service runs Python: fold 75%, SQL 24%, the rest 1%." in busy
    assert "The service's one process bounds it: it keeps 0.80 of a core busy." in text(MISSED)
    assert "Waiting bounds it" in text(replace(MISSED, per_second=100.0))


def test_two_services_have_two_cores_and_a_load_about_times_has_no_rate_to_reach():
    words = text(replace(MISSED, services=2, wanted=None))
    assert "With a core each and nothing else, the 2 services could do at most 1,000 a second." in words
    assert "leave" not in words
    assert "the 2 services 2.00, the callers 0.50" in words


def test_where_nothing_was_sampled_it_is_said_why():
    words = text(replace(MISSED, shares={}, samples=0, problem="Permission Denied"))
    assert words.endswith("The service was not sampled: Permission Denied.")


def section(tmp_path, load: LoadRow, profiles: list[KernelProfile | LoadProfile]) -> str:
    page = tmp_path / "page.md"
    results = Results(False, "numpy", [SELECT], [load, SHARE], "PostgreSQL 18", [SHARED], [KILL], profiles)
    write_page(results, page)
    return page.read_text().partition("## What bounds")[2]


def test_the_page_says_what_bounds_each_promise_that_is_not_reached(tmp_path):
    slow = replace(LOAD, per_second=400.0)
    found = section(tmp_path, slow, [MISSED])
    missed = Results(False, "numpy", [SELECT], [slow, SHARE], "PostgreSQL 18", [SHARED], [KILL]).missed()
    assert [target.promise for target in missed] == ["report(32) over HTTP", "report(32), 2 services"]
    assert all(f"- **{target.promise}**: " in found for target in missed)
    assert "- **report(32), 2 services**: It has no profile" in found


def test_figures_without_profiles_give_a_page_without_the_section(tmp_path):
    assert section(tmp_path, LOAD, []) == ""


def test_a_page_on_which_all_is_reached_has_no_section(tmp_path):
    page = tmp_path / "page.md"
    fast = replace(SHARED, load=replace(SHARED.load, per_second=1200.0))
    write_page(Results(False, "numpy", [SELECT], [LOAD, SHARE], "PostgreSQL 18", [fast], [KILL], [MISSED]), page)
    assert "What bounds" not in page.read_text()


def test_profiles_made_earlier_are_kept_until_their_promise_is_reached(tmp_path):
    slow = replace(LOAD, per_second=400.0)
    Results(quick=False, service=[slow], profiles=[MISSED]).save(tmp_path)
    kept = Results(quick=False, kernels=[SELECT], profiles=[KERNEL]).save(tmp_path)
    rows = json.loads(kept.read_text())["parts"]["profiles"]["rows"]
    assert [(row["of"], row["promise"]) for row in rows] == [("load", MISSED.promise)]
    Results(quick=False, service=[LOAD]).save(tmp_path)
    assert "profiles" not in json.loads(kept.read_text())["parts"]
