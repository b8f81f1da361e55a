"""What the service can do, one verb a file."""

from dataclasses import dataclass

from bots_service.ports.catalog import Answers, Datasets, Health
from bots_service.usecases.append_tasks import AppendTasks
from bots_service.usecases.change_settings import ChangeSettings
from bots_service.usecases.delete import DeleteDataset, DeleteRun
from bots_service.usecases.describe_run import DescribeRun
from bots_service.usecases.import_dataset import ImportDataset
from bots_service.usecases.put_run import PutRun
from bots_service.usecases.read_history import ReadHistory
from bots_service.usecases.read_tasks import ReadTasks
from bots_service.usecases.report_outcomes import ReportOutcomes
from bots_service.usecases.retire_tasks import RetireTasks
from bots_service.usecases.rewind_run import RewindRun
from bots_service.usecases.select_tasks import SelectTasks
from bots_service.usecases.take_snapshot import TakeSnapshot


@dataclass(frozen=True, slots=True)
class UseCases:
    """All that the API may call. datasets, answers and health are read as they are."""

    datasets: Datasets
    answers: Answers
    health: Health
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
    select_tasks: SelectTasks
    report_outcomes: ReportOutcomes
