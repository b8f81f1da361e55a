"""`bots demo`, as it is run."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bots_service.demo.replay import RECENT, ROLLOUTS, Course, Plan, ReplayedRun
from tests.cli.running import BOTS, CommandLine, clean_environment
from tests.serving import running_service
from tests.sizes import SOAK, size

DEMO_S = 180.0  # what is promised for the whole replay
STEPS = size(150, 500)  # 500: all that were recorded, and what `bots demo` replays unless told otherwise


def demo(folder, *arguments, **environment):
    """Run the demo; return its replays and what it said meanwhile."""
    done = subprocess.run(
        [*BOTS, "demo", "--json", *arguments],
        cwd=folder,
        env=clean_environment(TMPDIR=str(folder), **environment),
        capture_output=True,
        text=True,
        timeout=DEMO_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["replays"], done.stderr


def test_the_replay_finds_so_many_more_effective_tasks_than_uniform_choice(tmp_path):
    (whole, referenced), said = demo(tmp_path, *([] if SOAK else ["--steps", str(STEPS)]))
    assert (whole["problems"], whole["with_both_references"]) == (890, referenced["problems"])
    assert whole["ratio"] >= 1.47
    assert referenced["ratio"] >= 1.62
    for replay in (whole, referenced):
        bots, uniform = replay["bots"], replay["uniform"]
        assert -1 <= bots["capability_least"] <= bots["capability"] <= bots["capability_most"] <= 2
        assert -1 <= uniform["capability_least"] <= uniform["capability_most"] <= 2
        assert bots["reported"] == uniform["reported"] == STEPS * 32
        assert replay["rollouts_spent"] == STEPS * 32 * ROLLOUTS
        needed = bots["effective"] / uniform["effective_task_ratio"] * ROLLOUTS
        assert replay["rollouts_saved"] == pytest.approx(needed - replay["rollouts_spent"], abs=1)
    assert f"step {STEPS} of {STEPS}" in said
    assert list(tmp_path.iterdir()) == []


def test_the_numbers_are_the_same_every_time_and_on_any_service(tmp_path):
    first, _ = demo(tmp_path, "--steps", "20", "--seed", "3")
    # Another's settings must not change them.
    again, _ = demo(
        tmp_path, "--steps", "20", "--seed", "3", BOTS_SNAPSHOT_EVERY="3", BOTS_PORT="1", BOTS_URL="ftp://x"
    )
    assert first == again
    with running_service(tmp_path / "service") as service:
        elsewhere, said = demo(tmp_path, "--steps", "20", "--seed", "3", "--url", service.url)
        other, _ = demo(tmp_path, "--steps", "20", "--seed", "4", "--both-references", "--url", service.url)
        runs = CommandLine(service.url, tmp_path)("runs", "list", "rlvr-run-890", "--json").json["runs"]
    for replay, at_home in zip(elsewhere, first, strict=True):
        for course in ("bots", "uniform"):
            assert replay[course].pop("run").startswith(f"{course}-")
            at_home[course].pop("run")
    assert elsewhere == first
    for problems in (890, first[1]["problems"]):
        assert f"Follow it at {service.url}/#/datasets/rlvr-run-{problems}\n" in said
    assert [replay["problems"] for replay in other] == [first[1]["problems"]]
    assert other[0]["bots"]["effective"] != first[1]["bots"]["effective"]
    assert {run["step"] for run in runs} == {0, 20}


def test_a_person_gets_a_closing_table(tmp_path):
    done = subprocess.run(
        [*BOTS, "demo", "--steps", "10", "--count", "8", "--both-references"],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=DEMO_S,
        check=True,
    )
    assert "times uniform's" in done.stdout
    assert f"{10 * 8 * ROLLOUTS:,}" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_whatever_ends_the_demo_ends_its_service_too(tmp_path, number):
    process = subprocess.Popen(
        [*BOTS, "demo"],
        cwd=tmp_path,
        env=clean_environment(TMPDIR=str(tmp_path)),
        stderr=subprocess.PIPE,
        # A shell without job control starts background work with Ctrl-C ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no thread runs here
    )
    give_up = time.monotonic() + 60
    while not (children := children_of(process.pid)) or not list(tmp_path.glob("*/bots.db")):
        assert time.monotonic() < give_up
        time.sleep(0.02)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert b"Traceback" not in said
    assert not [child for child in children if Path(f"/proc/{child}").exists()]
    assert list(tmp_path.iterdir()) == []


def children_of(process):
    listing = Path(f"/proc/{process}/task/{process}/children")
    if not listing.exists():
        pytest.skip(f"{sys.platform} does not list the children of a process")
    return listing.read_text().split()


def test_a_service_that_cannot_start_is_told_in_one_line(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\nif 'serve' in sys.orig_argv:\n    os.write(2, b'no room\\n')\n    os._exit(9)\n"
    )
    done = subprocess.run(
        [*BOTS, "demo"],
        cwd=tmp_path,
        env=clean_environment(PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])),
        capture_output=True,
        text=True,
        timeout=DEMO_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "bots: the demo's own service ended (9): no room\n"


def test_ratios_and_savings_are_computed_from_the_courses():
    bots, uniform = (
        Course(name, [4] * (2 * RECENT), [first] * RECENT + [then] * RECENT, [None, 9, 1])
        for name, first, then in (("bots", 4, 2), ("uniform", 2, 1))
    )
    replay = ReplayedRun(Plan(2 * RECENT, 4, 0), "d", problems=9, referenced=9, bots=bots, uniform=uniform)
    assert bots.effective_task_ratio() == 3 / 4
    assert bots.effective_task_ratio(RECENT) == 2 / 4
    assert bots.capability == 1
    assert replay.ratio == 2
    assert replay.rollouts_saved == replay.rollouts_spent == 2 * RECENT * 4 * ROLLOUTS


def test_a_replay_in_which_uniform_found_nothing_has_no_ratio():
    nothing = Course("uniform", [4], [0], [None])
    bots = Course("bots", [4], [2], [None])
    replay = ReplayedRun(Plan(1, 4, 0), "d", problems=9, referenced=9, bots=bots, uniform=nothing)
    assert (replay.ratio, replay.rollouts_saved, nothing.capability) == (None, None, None)
