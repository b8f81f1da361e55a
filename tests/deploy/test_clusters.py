"""examples/clusters: a job with a service of its own goes on from its copy, and the other files fit the service."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bots_client import Client
from tests.cli.running import clean_environment
from tests.deploy.files import ROOT
from tests.forked import bots_program
from tests.servers import wait_until
from tests.serving import running_service

FOLDER = ROOT / "examples" / "clusters"
SCRIPT = FOLDER / "with_service.sh"
ENDS_WITHIN_S = 60
# Trains so many steps on the dataset that the script names, says at which step the run is, and stays for a while.
TRAINER = """
import os, sys, time
from bots_client import Client, Outcome, Task
name, steps, stays_s = os.environ["BOTS_DATASET"], int(sys.argv[1]), float(sys.argv[2])
with Client() as bots:
    if name not in [dataset.name for dataset in bots.datasets()]:
        bots.create_dataset(name, [Task(f"t{number}") for number in range(20)])
    for _ in range(steps):
        selection = bots.select(name, 4)
        receipt = bots.report(name, [Outcome.rewards(task, [1, 0]) for task in selection.ids], selection=selection)
    print("at step", receipt.step, flush=True)
    time.sleep(stays_s)
    sys.exit(int(sys.argv[3]))
"""


@pytest.fixture
def trainer(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(TRAINER, "utf-8")
    return path


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    for folder in ("node", "kept"):
        (tmp_path / folder).mkdir()
    with bots_program(tmp_path / "programs") as programs:
        yield clean_environment(
            PATH=os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]),
            SLURM_TMPDIR=str(tmp_path / "node"),
            SLURM_SUBMIT_DIR=str(tmp_path / "kept"),
            BOTS_DATASET="guru",
        )
    assert list((tmp_path / "node").iterdir()) == []  # the service ended, and took its data along


def job(trainer: Path, environment: dict[str, str], *arguments: object) -> subprocess.Popen[str]:
    command = ["bash", str(SCRIPT), sys.executable, str(trainer), *map(str, arguments)]
    return subprocess.Popen(command, env=environment, cwd=trainer.parent, stdout=subprocess.PIPE, text=True)


def test_the_next_job_goes_on_from_what_the_last_one_kept(trainer: Path, environment: dict[str, str]):
    first = job(trainer, environment, 3, 0, 0)
    assert "at step 3" in first.communicate(timeout=ENDS_WITHIN_S)[0]
    second = job(trainer, environment, 2, 0, 7)
    assert "at step 5" in second.communicate(timeout=ENDS_WITHIN_S)[0]
    assert (first.returncode, second.returncode) == (0, 7)  # the trainer's own


def test_what_a_job_learned_is_kept_now_and_then_and_when_it_is_to_end(
    trainer: Path, environment: dict[str, str], tmp_path: Path
):
    kept = tmp_path / "kept" / "guru.db"
    running = job(trainer, {**environment, "BOTS_KEEP_EVERY_S": "0.2"}, 3, 600, 0)
    assert running.stdout is not None
    while "at step 3" not in running.stdout.readline():
        assert running.poll() is None
    wait_until(kept.exists, ENDS_WITHIN_S)  # for a node that is lost
    assert running.poll() is None
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=ENDS_WITHIN_S)
    assert running.returncode == 128 + signal.SIGTERM
    (tmp_path / "later").mkdir()
    kept.rename(tmp_path / "later" / "bots.db")
    with running_service(tmp_path / "later") as service, Client(service.url) as bots:
        assert bots.run("guru").step == 3
