"""A job without a server: the service is a process beside the trainer's, for as long as anybody of the job is there."""

import fcntl
import json
import os
import pickle
import signal
import subprocess
import sys
import time

import pytest

from bots_client import AuthenticationError, Client, ResilientClient, Selector, ServiceError
from bots_client._resilience import local as local_module
from tests.client.resilience.worlds import IDS, SOON_S, journalled, train, wait_for
from tests.serving import answers, running_service

TRAINER = """
import sys
from bots_client import Selector

selector = Selector.local("guru.db", ids=[f"t{n}" for n in range(40)])

def step():
    for task in selector.next(4).ids:
        selector.observe(task, [1, 0])
    receipt = selector.step()
    print(receipt and receipt.step, flush=True)

try:
    print(selector.client.direct.url, flush=True)
    for line in sys.stdin:
        step()
except KeyboardInterrupt:
    step()
selector.close()
"""


class Trainer:
    """A training job's process, in a folder with the database guru.db; it does a step when it is told to."""

    def __init__(self, folder):
        self.process = subprocess.Popen(
            [sys.executable, "-c", TRAINER],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
        )

    def said(self):
        """Return its next line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def step(self):
        """Return the number of the step that it closed."""
        assert self.process.stdin is not None
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        return self.said()

    def kill(self):
        """End it at once, as a crash does."""
        self.process.kill()
        self.process.communicate()

    def end(self):
        """Let it close its selector."""
        self.process.communicate(timeout=SOON_S)
        assert self.process.returncode == 0


@pytest.fixture
def begin(tmp_path):
    """Start trainers that end with the test."""
    trainers = []

    def started():
        trainers.append(Trainer(tmp_path))
        return trainers[-1]

    yield started
    for trainer in trainers:
        trainer.kill()
    wait_for(lambda: has_ended(tmp_path))


def has_ended(folder):
    """Return whether no service of guru.db runs."""
    with (folder / "guru.db.service").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def local(folder, **others):
    return Selector.local(folder / "guru.db", ids=IDS, **others)


def kill_service(folder):
    os.kill(int((folder / "guru.db.lock").read_text()), signal.SIGKILL)


def test_a_restarted_job_goes_on_from_its_file_and_so_does_a_shared_service(tmp_path):
    first = local(tmp_path, reward_range=(-1, 1))
    url = first.client.direct.url
    receipts = train(first, 2, rewards=(1, -1))
    state = first.state_dict()
    receipts += train(first, rewards=(1, -1))
    first.close()
    assert [receipt.step for receipt in receipts] == [1, 2, 3]
    assert has_ended(tmp_path)
    assert not answers(f"{url}/livez")

    again = local(tmp_path)
    run = again.client.direct.run("guru")
    assert (run.step, run.settings.reward_range) == (3, (-1, 1))
    again.load_state_dict(json.loads(json.dumps(state)))
    assert again.client.direct.run("guru").step == 2
    again.close()

    with running_service(tmp_path / "shared", database_url=f"sqlite:///{tmp_path}/guru.db") as service:
        with Client(service.url) as bots:
            assert bots.run("guru").step == 2
        with pytest.raises(ServiceError, match="in use by process"):
            local(tmp_path)


def test_trainers_that_start_at_once_share_a_service_which_outlives_all_but_the_last(tmp_path, begin):
    trainers = begin(), begin()
    one, other = (trainer.said() for trainer in trainers)
    assert one == other
    assert [trainer.step() for trainer in trainers] == ["1", "2"]
    trainers[0].kill()
    assert [trainers[1].step() for _ in range(2)] == ["3", "4"]
    trainers[1].kill()
    wait_for(lambda: has_ended(tmp_path))

    third = begin()
    assert third.said() != one
    assert third.step() == "5"
    third.end()
    assert has_ended(tmp_path)


def test_a_service_that_crashed_is_started_again_and_no_report_is_lost(tmp_path, begin):
    trainer = begin()
    trainer.said()
    assert trainer.step() == "1"
    kill_service(tmp_path)
    assert trainer.step() == "None"  # it waits on the disk
    steps = ["None"]
    while steps[-1] == "None":
        time.sleep(0.2)  # else new reports queue behind those that wait, faster than a busy machine sends them
        steps.append(trainer.step())
    assert int(steps[-1]) == len(steps) + 1

    kill_service(tmp_path)
    assert trainer.step() == "None"
    trainer.kill()
    again = local(tmp_path)
    again.client.flush(SOON_S)
    assert again.client.direct.run("guru").step == len(steps) + 2
    assert journalled(again.client, "guru").count("report") == len(steps) + 2
    again.close()


def test_ctrl_c_reaches_the_trainer_alone(tmp_path, begin):
    trainer = begin()
    trainer.said()
    os.killpg(trainer.process.pid, signal.SIGINT)
    assert trainer.said() == "1"
    trainer.end()
    assert has_ended(tmp_path)


def test_a_forked_process_uses_the_service_and_leaves_it_to_its_parent(tmp_path):
    selector = local(tmp_path)
    if not (child := os.fork()):
        train(selector)
        selector.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert [receipt.step for receipt in train(selector)] == [2]
    selector.close()
    assert has_ended(tmp_path)


def test_it_is_for_this_user_of_this_machine(tmp_path, monkeypatch, caplog):
    selector = local(tmp_path)
    address = json.loads((tmp_path / "guru.db.service").read_text("utf-8"))
    assert address["page"] == f"{address['url']}/#key={address['key']}"
    assert "guru.db.service links to its page" in caplog.text
    assert address["key"] not in caplog.text  # a trainer's log goes to others
    monkeypatch.delenv("BOTS_API_KEY", raising=False)
    with Client(selector.client.direct.url) as bots, pytest.raises(AuthenticationError):
        bots.run("guru")
    assert selector.client.direct.url.startswith("http://127.0.0.1:")
    assert (tmp_path / "guru.db.service").stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(local_module, "gethostname", lambda: "node-2")
    with pytest.raises(ServiceError, match="for several machines, use a shared service"):
        local(tmp_path)
    selector.close()


def test_every_trainer_that_takes_a_url_takes_a_file(tmp_path, monkeypatch):
    selector = local(tmp_path)
    monkeypatch.setenv("BOTS_URL", f"sqlite:///{tmp_path}/guru.db")
    with ResilientClient() as bots, pickle.loads(pickle.dumps(bots)) as copy:  # noqa: S301 - our own
        assert bots.direct.url == copy.direct.url == selector.client.direct.url
    selector.close()


def test_an_environment_without_the_service_is_told_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "bots_service", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install \./client \."):
        local(tmp_path)
    assert list(tmp_path.iterdir()) == []
