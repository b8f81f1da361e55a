"""A training job that began with a released client resumes with this one, and its reports arrive."""

import base64
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bots_client import ResilientClient
from bots_client._resilience.spool import Spool, spool_of
from tests.released import client_state
from tests.released.test_upgrade import RELEASES
from tests.serving import running_service


@pytest.fixture(params=RELEASES, ids=lambda release: release.name)
def left(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What the job of each release left on its disk."""
    return json.loads((request.param / "client.json").read_text("utf-8"))


@pytest.fixture
def resumed(left: dict[str, Any], tmp_path: Path) -> Iterator[ResilientClient]:
    """A client of a service that has the job's run; its spool is empty."""
    (tmp_path / "pool.botsbackup").write_bytes(base64.b64decode(left["backup"]))
    with running_service(tmp_path) as service:
        client = client_state.connect(service.url, tmp_path / "spool")
        with closing(client.direct):
            client.direct.import_backup(tmp_path / "pool.botsbackup")
            yield client


def spool_at(url: str, folder: Path) -> Spool:
    return spool_of(folder, url=url, dataset="pool", run="default", limit_bytes=10**6)


def test_a_checkpoint_rewinds_the_run_to_its_step(left: dict[str, Any], resumed: ResilientClient):
    selector = client_state.train(resumed, 1)
    assert resumed.direct.run("pool").step == client_state.STEPS + 1
    selector.load_state_dict(left["state"], **client_state.CHECKPOINT)
    run = resumed.direct.run("pool")
    assert (run.step, run.epoch) == (client_state.STEPS, 1)


def test_a_report_that_waited_arrives(left: dict[str, Any], resumed: ResilientClient, tmp_path: Path):
    assert spool_at(left["url"], tmp_path).file.name == left["file"]
    # The job's own service had another address.
    spool_at(resumed.direct.url, tmp_path / "spool").file.write_bytes(base64.b64decode(left["spool"]))
    resumed.save_checkpoint("pool")  # sends what waits
    newest = [task.id for task in resumed.direct.tasks("pool") if task.last_step == client_state.STEPS + 1]
    assert sorted(newest) == sorted(left["waiting"])
