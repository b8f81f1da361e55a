"""What the tests of the integrations have in common."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bots_client import Client
from tests.serving import running_service

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # what asks a hub for anything fails at once, here as where there is none
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # more would only wait for each other over matrices this small


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let trainers warn: their warnings are not ours to mend."""
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one service for a file's tests; each has a dataset of its own.

    One for all files has more runs at work than have metrics of their own.
    """
    with running_service(tmp_path_factory.mktemp("service")) as service:
        yield service.url


@pytest.fixture
def bots(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setenv("BOTS_URL", url)
    monkeypatch.setenv("BOTS_SPOOL", str(tmp_path / "spool"))
    with Client(url) as client:
        yield client
