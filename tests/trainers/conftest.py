"""What the tests of the integrations have in common."""

import os

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # what asks a hub for anything fails at once, here as where there is none
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let trainers warn: their warnings are not ours to mend."""
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("default"))
