"""The page in Firefox: every view is drawn there too, and nothing goes wrong."""

from collections.abc import Iterator

import pytest

from tests.browser.chromium import DESK, PHONE
from tests.browser.firefox import Firefox, open_firefox
from tests.browser.replaying import BOTS, DATASET
from tests.serving import ServiceProcess

VIEWS = {
    "overview": "",
    "dataset": f"datasets/{DATASET}",
    "run": f"datasets/{DATASET}/runs/{BOTS}",
    "tasks": f"datasets/{DATASET}/runs/{BOTS}/tasks",
}
READY = "document.querySelector('#live[data-state=live]') !== null && document.querySelector('main h1') !== null"
DRAWN = "document.querySelector('.plot path') !== null && document.querySelector('.plot[aria-busy]') === null"


@pytest.fixture(scope="module")
def firefox() -> Iterator[Firefox]:
    with open_firefox() as started:
        yield started


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_drawn_and_nothing_goes_wrong(view: str, firefox: Firefox, trained: ServiceProcess):
    firefox.open(f"{trained.url}/#/{VIEWS[view]}", *DESK)
    firefox.wait_for(READY)
    for name, size in (("desk", DESK), ("phone", PHONE)):
        firefox.resize(*size)
        if view in ("dataset", "run"):
            firefox.wait_for(DRAWN)
        firefox.keep(f"firefox-{view}-{name}")
        assert firefox.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert firefox.wrong == []
