"""One browser for all tests, and a service that has replayed a real training run."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.chromium import SOON_MS, open_chromium
from tests.browser.replaying import replaying
from tests.serving import ServiceProcess, running_service

STEPS = 64
SOON_S = 240.0
expect.set_options(timeout=SOON_MS)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    with sync_playwright() as playwright:
        opened = open_chromium(playwright)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service on which the runs of the demo have closed STEPS steps."""
    with running_service(tmp_path_factory.mktemp("trained")) as service:
        with replaying(service.url, STEPS) as done:
            assert done.wait(SOON_S)
        yield service
