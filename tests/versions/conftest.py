"""What failures cost, as a table at the end."""

from collections.abc import Callable

import pytest

from tests.versions.deployment import Cost
from tests.versions.servers import Authority, authority

Note = Callable[[str, Cost], None]
COSTS = pytest.StashKey[dict[str, Cost]]()


@pytest.fixture
def note(pytestconfig: pytest.Config) -> Note:
    costs = pytestconfig.stash.setdefault(COSTS, {})
    return costs.__setitem__


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("authority"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table, as docs/testing.md has it."""
    costs = config.stash.get(COSTS, {})
    if costs:
        terminalreporter.write_line("| failure under load | acknowledged | lost | counted twice | seconds to recover |")
        terminalreporter.write_line("|---|---|---|---|---|")
    for failure, cost in costs.items():
        counts = f"{cost.acknowledged:,} | {cost.lost} | {cost.twice} | {cost.recovered_s:.1f}"
        terminalreporter.write_line(f"| {failure} | {counts} |")
