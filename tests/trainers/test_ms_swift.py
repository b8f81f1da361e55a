import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from bots_client import Client
from tests.serving import running_service
from tests.sizes import SOAK
from tests.trainers import tiny
from tests.trainers.recipes import folder_of

ROOT = Path(__file__).parents[2]
# In the order in which they are looked up: some are there in other versions too.
PACKAGES = [
    "ms-swift==4.6.0", "trl==0.29.1", "transformers==5.19.0", "peft==0.20.0", "modelscope==1.40.2",
    "modelscope-hub==0.5.1", "addict==2.4.0", "aiohappyeyeballs==2.7.1", "aiohttp==3.14.5", "aiosignal==1.4.0",
    "attrdict==2.0.1", "binpacking==2.0.1", "cffi==2.1.1", "cryptography==50.0.2", "dacite==1.9.2", "einops==0.8.2",
    "frozenlist==1.8.0", "json-repair==0.64.5", "multidict==7.2.1", "oss2==2.19.1", "propcache==0.5.4",
    "pycparser==3.12", "simplejson==4.3.0", "sortedcontainers==2.4.0", "yarl==1.25.1",
]  # fmt: skip

pytestmark = pytest.mark.skipif(not SOAK, reason="it fetches two dozen packages, and imports them for a minute")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    paths = [*map(folder_of, PACKAGES), ROOT / "service", ROOT / "client", ROOT]
    with running_service(folder / "service") as service, Client(service.url) as client:
        for dataset in ("plain", "dynamic"):
            client.create_dataset(dataset, tiny.TASKS)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "BOTS_URL": service.url,
            "BOTS_SPOOL": str(folder / "spool"),
            "MODELSCOPE_CACHE": str(folder / "cache"),
        }
        command = [
            sys.executable,
            str(ROOT / "tests/trainers/ms_swift_job.py"),
            str(ROOT / "examples/trainers/ms_swift.py"),
        ]
        ended = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=280, check=False
        )
        assert ended.returncode == 0, ended.stderr[-4000:]
        yield {name: (client.run(name), list(client.journal(name))) for name in ("plain", "dynamic")}


def test_the_plugin_trains_and_resumes(runs):
    run, journal = runs["plain"]
    assert (run.step, run.epoch) == (4, 1)
    assert (run.totals.reported, run.totals.rollouts) == (4 * 2, 4 * 2 * 4)
    assert Counter(entry.kind for entry in journal) == {"report": 4 + 2, "rewind": 1}


def test_what_dynamic_sampling_throws_away_is_reported_too(runs):
    run, _ = runs["dynamic"]
    assert run.step == 4
    assert run.totals.reported > 4 * 2
    assert run.totals.rollouts == run.totals.reported * 4
