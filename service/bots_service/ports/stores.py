"""The stores of one process, one for each port."""

from dataclasses import dataclass

from bots_service.ports.backup import Exports, Imports
from bots_service.ports.catalog import Answers, Datasets, Health, Runs
from bots_service.ports.courses import Courses
from bots_service.ports.history import Outlooks, Retention
from bots_service.ports.hot import Leases, States
from bots_service.ports.journal import Journal, Snapshots
from bots_service.ports.keys import Keys


@dataclass(frozen=True, slots=True)
class DurableStores:
    """The stores in the database. health: of the database, by name of the check."""

    answers: Answers
    datasets: Datasets
    runs: Runs
    journal: Journal
    snapshots: Snapshots
    courses: Courses
    outlooks: Outlooks
    keys: Keys
    retention: Retention
    exports: Exports
    imports: Imports
    health: dict[str, Health]


@dataclass(frozen=True, slots=True)
class HotStores:
    """The hot stores. is_shared: whether other processes see them. health: of each server behind them, by name."""

    states: States
    leases: Leases
    is_shared: bool
    health: dict[str, Health]
