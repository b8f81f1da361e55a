"""One browser for all tests, and a service that has replayed a real training run."""

import fcntl
import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser import everything
from tests.browser.chromium import SOON_MS, open_chromium
from tests.browser.replaying import replaying
from tests.serving import ServiceProcess, running_service

STEPS = 64
SOON_S = 240.0
expect.set_options(timeout=SOON_MS)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = open_chromium(playwright)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service on which the runs of the demo have closed STEPS steps; one process of pytest's replays them for all."""
    folder = tmp_path_factory.getbasetemp()
    made = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "replayed"
    with made.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            with running_service(folder / "replaying") as service, replaying(service.url, STEPS) as done:
                assert done.wait(SOON_S)
            (folder / "replaying").rename(made)
    shutil.copytree(made, folder / "trained")
    with running_service(folder / "trained") as service:
        yield service


@pytest.fixture(scope="session")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service with runs that have tags, a mix and a probe."""
    with running_service(tmp_path_factory.mktemp("everything")) as started:
        everything.train_on_everything(started.url)
        yield started
