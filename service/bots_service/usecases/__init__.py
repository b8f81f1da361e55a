"""What the service can do, one verb a file."""

from dataclasses import dataclass

from bots_service.engine.replicas import FollowReplicas
from bots_service.ports.catalog import Answers, Datasets
from bots_service.ports.keys import Keys
from bots_service.usecases.append_tasks import AppendTasks
from bots_service.usecases.authenticate import Authenticate
from bots_service.usecases.change_run import ChangeSettings, RewindRun, TakeSnapshot
from bots_service.usecases.delete import DeleteDataset, DeleteRun
from bots_service.usecases.describe import DescribeRun, ListDatasets
from bots_service.usecases.export_backup import ExportBackup
from bots_service.usecases.import_backup import ImportBackup
from bots_service.usecases.import_dataset import ImportDataset
from bots_service.usecases.manage_keys import CreateKey, RevokeKey
from bots_service.usecases.observe_runs import ObserveRuns
from bots_service.usecases.prune import Prune
from bots_service.usecases.put_run import PutRun
from bots_service.usecases.read_run import (
    ReadCalibration,
    ReadCurve,
    ReadHistory,
    ReadJournal,
    ReadLeases,
    ReadOutlooks,
)
from bots_service.usecases.read_tasks import ReadTasks
from bots_service.usecases.readiness import Readiness
from bots_service.usecases.report_outcomes import ReportOutcomes
from bots_service.usecases.retire_tasks import RetireTasks
from bots_service.usecases.select_tasks import SelectTasks


@dataclass(frozen=True, slots=True)
class UseCases:
    """All that the API may call, and what works beside it. datasets, answers and keys are read as they are."""

    datasets: Datasets
    answers: Answers
    keys: Keys
    readiness: Readiness
    authenticate: Authenticate
    create_key: CreateKey
    revoke_key: RevokeKey
    list_datasets: ListDatasets
    import_dataset: ImportDataset
    append_tasks: AppendTasks
    retire_tasks: RetireTasks
    delete_dataset: DeleteDataset
    put_run: PutRun
    change_settings: ChangeSettings
    describe_run: DescribeRun
    delete_run: DeleteRun
    rewind_run: RewindRun
    take_snapshot: TakeSnapshot
    read_tasks: ReadTasks
    read_history: ReadHistory
    read_curve: ReadCurve
    read_outlooks: ReadOutlooks
    read_calibration: ReadCalibration
    read_journal: ReadJournal
    read_leases: ReadLeases
    select_tasks: SelectTasks
    report_outcomes: ReportOutcomes
    follow_replicas: FollowReplicas
    observe_runs: ObserveRuns
    export_backup: ExportBackup
    import_backup: ImportBackup
    prune: Prune
