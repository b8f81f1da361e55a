"""The contracts of the stores in SQL, on each product."""

import pytest

from tests.storage.contracts.capacity import CapacityContract
from tests.storage.contracts.catalog import AnswersContract, DatasetsContract, RunsContract
from tests.storage.contracts.courses import CoursesContract
from tests.storage.contracts.journal import JournalContract, SnapshotsContract
from tests.storage.contracts.keys import KeysContract
from tests.storage.contracts.lineage import LineageContract
from tests.storage.contracts.outlooks import OutlooksContract
from tests.storage.contracts.predictions import PredictionsContract
from tests.storage.contracts.subsets import SubsetsContract
from tests.storage.contracts.task_history import TaskHistoryContract
from tests.storage.made import Stores


@pytest.fixture
def stores(both_stores: Stores) -> Stores:
    return both_stores


class TestDatasets(DatasetsContract): ...


class TestRuns(RunsContract): ...


class TestPredictions(PredictionsContract): ...


class TestSubsets(SubsetsContract): ...


class TestAnswers(AnswersContract): ...


class TestCapacity(CapacityContract): ...


class TestJournal(JournalContract): ...


class TestTaskHistory(TaskHistoryContract): ...


class TestLineage(LineageContract): ...


class TestSnapshots(SnapshotsContract): ...


class TestCourses(CoursesContract): ...


class TestOutlooks(OutlooksContract): ...


class TestKeys(KeysContract): ...
