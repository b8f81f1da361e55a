import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from bots_client import Client
from tests.trainers import tiny
from tests.trainers.tiny_trl import GENERATIONS
from tests.trainers.two_ranks import STEPS

ROOT = Path(__file__).parents[2]
GROUPS = 3  # of each step


@pytest.fixture(scope="module")
def job(url, tmp_path_factory):
    """A job of two processes that has trained, resumed and ended: what each of them saw, and the run."""
    folder = tmp_path_factory.mktemp("ranks")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    paths = os.pathsep.join(map(str, (ROOT / "service", ROOT / "client", ROOT)))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    with Client(url) as client:
        client.create_dataset("ranks", tiny.TASKS)
        client.create_run("ranks", "halves")
        script = [str(ROOT / "tests/trainers/two_ranks.py"), url, str(folder)]
        ended = subprocess.run(
            [*command, *script], env=environment, capture_output=True, text=True, timeout=200, check=False
        )
        assert ended.returncode == 0, ended.stderr[-4000:]
        seen = [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(2)]
        yield seen, client.run("ranks"), list(client.journal("ranks")), list(client.history("ranks", "halves"))


def test_all_ranks_hear_what_rank_zero_was_answered_and_its_failures(job):
    assert [seen["heard"][0] for seen in job[0]] == ["from rank 0"] * 2
    assert [seen["heard"][2] for seen in job[0]] == ["NotFoundError"] * 2
    own, told = (seen["heard"][1] for seen in job[0])
    assert own == "KeyError: 'no answer for rank 0'"
    assert told == "RuntimeError: rank 0 failed: KeyError: 'no answer for rank 0'"


@pytest.mark.parametrize(("part", "steps"), [("scored", STEPS), ("scored_again", STEPS - 1)])
def test_ranks_train_on_the_parts_of_the_same_groups(job, part, steps):
    first, second = (seen[part] for seen in job[0])
    for step in range(steps):
        mine, others = first[step * 6 : step * 6 + 6], second[step * 6 : step * 6 + 6]
        assert mine[4:] == others[:2], "the middle group lies on both"
        assert list(Counter(mine + others).values()) == [GENERATIONS] * GROUPS


def test_only_rank_zero_asks_and_reports(job):
    first, second = job[0]
    assert (first["asked"], first["sent"]) == (1 + STEPS + 1, STEPS)
    assert (second["asked"], second["sent"]) == (0, 0)


def test_each_group_is_reported_once_and_the_run_rewound_once(job):
    run, journal = job[1], job[2]
    assert (run.step, run.epoch) == (STEPS, 1)
    assert (run.totals.reported, run.totals.rollouts) == (STEPS * GROUPS, STEPS * GROUPS * GENERATIONS)
    assert Counter(entry.kind for entry in journal) == {"report": STEPS + STEPS - 1, "rewind": 1}


def test_groups_that_lie_on_two_ranks_are_reported_whole_and_once(job):
    whole, of_one_rank = job[3]
    assert (whole.reported, whole.effective, whole.rollouts) == (2, 2, 2 * GENERATIONS)
    assert of_one_rank.rollouts == 1, "a rank that cannot tell its rollouts holds up nobody"
