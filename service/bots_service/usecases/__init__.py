"""What the service can do, one verb or one family of verbs a file, and how all of them are made."""

from bots_service.engine.engine import Engine
from bots_service.usecases.append_tasks import AppendTasks
from bots_service.usecases.authenticate import Authenticate, KnownKeys, digest_of
from bots_service.usecases.begin_run import BeginRun
from bots_service.usecases.change_run import ChangeRun, TakeSnapshot
from bots_service.usecases.delete import DeleteDataset, DeleteRun
from bots_service.usecases.describe import DescribeRun, ListDatasets
from bots_service.usecases.export_run import ExportRun
from bots_service.usecases.import_dataset import ImportDataset
from bots_service.usecases.import_run import ImportRun
from bots_service.usecases.make_subset import MakeSubset
from bots_service.usecases.manage_keys import CreateKey, RevokeKey
from bots_service.usecases.observe_runs import LookAtRun, ObserveRuns
from bots_service.usecases.prune import Prune
from bots_service.usecases.put_predictions import ChangePredictions, PutPredictions, PutPredictionsOfRun
from bots_service.usecases.put_run import PutRun
from bots_service.usecases.read_run import (
    ReadCalibration,
    ReadCurve,
    ReadHistory,
    ReadJournal,
    ReadLeases,
    ReadOutlooks,
)
from bots_service.usecases.read_tags import ReadTags
from bots_service.usecases.read_task_history import ReadTaskHistory
from bots_service.usecases.read_tasks import ReadTasks
from bots_service.usecases.readiness import Readiness
from bots_service.usecases.refused_reports import CountRefusedReport
from bots_service.usecases.report_outcomes import ReportOutcomes
from bots_service.usecases.retire_tasks import RestoreTasks, RetireTasks
from bots_service.usecases.select_tasks import SelectTasks
from bots_service.usecases.summarize_runs import SummarizeRuns


class UseCases:
    """All that the API may call, and what works in the background. datasets, answers and keys are read as they are."""

    def __init__(self, engine: Engine, *, admin_key: str | None = None, keep_journal_days: float | None = None) -> None:
        """Make all use cases.

        Args:
            engine: what they are made of.
            admin_key: the operator's own key, None without one.
            keep_journal_days: the age at which journal entries are pruned; None keeps all.
        """
        self.datasets, self.answers, self.keys = engine.datasets, engine.answers, engine.keys
        self._make_training(engine)
        self._make_datasets(engine)
        self._make_runs(engine)
        self._make_reading(engine)
        self._make_keys(engine, None if admin_key is None else digest_of(admin_key))
        self._make_upkeep(engine, keep_journal_days)

    def _make_training(self, e: Engine) -> None:
        self.select_tasks = SelectTasks(e.open_runs, e.catch_up, e.leases, e.live, e.metrics)
        self.report_outcomes = ReportOutcomes(e.open_runs, e.journal, e.catch_up, e.leases, e.metrics)
        self.count_refused_report = CountRefusedReport(e.open_runs, e.runs)

    def _make_datasets(self, e: Engine) -> None:
        self.list_datasets = ListDatasets(e.datasets)
        self.import_dataset = ImportDataset(e.datasets, e.open_datasets, e.notify_replicas)
        self.append_tasks = AppendTasks(e.datasets, e.open_datasets, e.notify_replicas)
        self.make_subset = MakeSubset(e.datasets, e.open_datasets)
        self.retire_tasks = RetireTasks(e.datasets, e.open_datasets, e.notify_replicas)
        self.restore_tasks = RestoreTasks(e.datasets, e.open_datasets, e.notify_replicas)
        change = ChangePredictions(e.datasets, e.open_datasets, e.open_runs, e.states, e.leases, e.notify_replicas)
        self.put_predictions = PutPredictions(e.open_datasets, change)
        self.put_predictions_of_run = PutPredictionsOfRun(e.open_datasets, e.open_runs, e.catch_up, change)
        self.drop_predictions = change.drop
        self.delete_dataset = DeleteDataset(e.datasets, e.open_datasets, e.runs, e.states, e.leases, e.at_work)

    def _make_runs(self, e: Engine) -> None:
        self.describe_run = describe = DescribeRun(e.runs, e.open_datasets, e.open_runs, e.catch_up, e.leases)
        begin = BeginRun(e.open_datasets, e.open_runs, e.catch_up)
        self.put_run = PutRun(e.runs, e.open_datasets, e.open_runs, begin, e.states, e.leases, e.answers, describe)
        change = ChangeRun(e.open_runs, e.journal, e.catch_up, e.leases, e.answers, describe)
        self.change_settings, self.rewind_run = change.change_settings, change.rewind
        self.forget_tasks = change.forget_tasks
        self.take_snapshot = TakeSnapshot(e.open_runs, e.catch_up, e.snapshots, e.save_snapshot)
        self.export_run = ExportRun(e.open_runs, e.runs, e.journal, e.transfers)
        self.import_run = ImportRun(
            e.datasets, e.open_datasets, e.open_runs, e.journal, e.replay, e.save_snapshot, e.states, e.transfers
        )
        self.delete_run = DeleteRun(e.runs, e.open_runs, e.states, e.leases, e.at_work)

    def _make_reading(self, e: Engine) -> None:
        self.read_tasks = ReadTasks(e.open_runs, e.catch_up)
        self.read_task_history = ReadTaskHistory(e.open_runs, e.catch_up, e.journal)
        self.read_history = ReadHistory(e.open_runs, e.catch_up, e.journal)
        self.read_curve = ReadCurve(e.open_runs, e.catch_up, e.journal)
        self.read_outlooks = ReadOutlooks(e.open_runs, e.catch_up, e.outlooks)
        self.read_calibration = ReadCalibration(e.open_runs, e.catch_up, e.journal)
        self.read_journal = ReadJournal(e.open_runs, e.catch_up, e.journal)
        self.summarize_runs = SummarizeRuns(e.datasets, e.run_courses, e.leases, e.judging)
        self.read_tags = ReadTags(e.open_runs, e.catch_up, e.step_evidence)
        self.read_leases = ReadLeases(e.open_runs, e.catch_up, e.leases)

    def _make_keys(self, e: Engine, admin_digest: bytes | None) -> None:
        self.known_keys = known = KnownKeys(e.keys)
        self.authenticate = Authenticate(known, admin_digest)
        self.create_key = CreateKey(e.keys, known)
        self.revoke_key = RevokeKey(e.keys, known)

    def _make_upkeep(self, e: Engine, keep_journal_days: float | None) -> None:
        self.readiness = Readiness(e.health)
        self.follow_replicas = e.follow_replicas
        self.look_at_run = LookAtRun(e.open_runs, e.catch_up, e.journal, e.leases, e.outlooks, e.at_work, e.judging)
        self.observe_runs = ObserveRuns(self.look_at_run, e.at_work)
        self.prune = Prune(
            e.retention, e.datasets, e.runs, e.journal, e.snapshots, e.open_runs, e.catch_up, keep_journal_days
        )
