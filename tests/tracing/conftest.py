from collections.abc import Iterator

import pytest

from tests.tracing.collector import Collector, collecting


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector that takes what comes."""
    with collecting() as running:
        yield running
