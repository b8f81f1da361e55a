"""The contracts of stores, on SQLite."""

from tests.storage.contracts.catalog import AnswersContract, DatasetsContract, RunsContract
from tests.storage.contracts.journal import JournalContract, SnapshotsContract
from tests.storage.contracts.lineage import LineageContract


class TestSqliteDatasets(DatasetsContract): ...


class TestSqliteRuns(RunsContract): ...


class TestSqliteAnswers(AnswersContract): ...


class TestSqliteJournal(JournalContract): ...


class TestSqliteLineage(LineageContract): ...


class TestSqliteSnapshots(SnapshotsContract): ...
