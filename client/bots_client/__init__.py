"""Thin client of the BOTS selector: select tasks, report outcomes.

from bots_client import Client, Outcome

with Client() as bots:
    selection = bots.select("guru", 32)
    bots.report("guru", [Outcome.rewards(task, train(task)) for task in selection.ids], selection=selection)
"""

__version__ = "0.1.0"

from bots_client._admin_models import (
    ApiKey,
    Dataset,
    ImportedRun,
    NewApiKey,
    PoolChange,
    Predicted,
    PrunedRun,
    Pruning,
    Snapshot,
    Subset,
    Version,
    WhoAmI,
)
from bots_client._async_selector import AsyncSelector
from bots_client._client import AsyncClient, Client
from bots_client._errors import (
    AuthenticationError,
    BotsClientError,
    ConflictError,
    DeadlineExceededError,
    FieldError,
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    Problem,
    RequestError,
    ServiceError,
    StaleEpochError,
    UnreachableError,
)
from bots_client._history_models import (
    Calibration,
    CalibrationBin,
    Coverage,
    Curve,
    CurvePoint,
    HistoryStep,
    JournalEntry,
    Outlook,
    Outlooks,
    TaskVisit,
)
from bots_client._inputs import GivenSettings, Outcome, Task
from bots_client._models import (
    Fork,
    Lease,
    Leases,
    MixShare,
    Receipt,
    Run,
    SelectedTask,
    Selection,
    Settings,
    TaskBelief,
    TaskCounts,
    Totals,
    VerifierAlarm,
)
from bots_client._resilience.health import Health
from bots_client._resilient_client import ResilientClient
from bots_client._retry import Retries
from bots_client._selector import Selector
from bots_client._summary_models import (
    Gain,
    Overview,
    OverviewTotals,
    RefusedReports,
    RunSummary,
    RunVerdict,
    TagComparison,
    TagSums,
)
from bots_client._tables import AsyncListing, Listing
from bots_client._task_columns import TaskColumns

__all__ = [
    "ApiKey",
    "AsyncClient",
    "AsyncListing",
    "AsyncSelector",
    "AuthenticationError",
    "BotsClientError",
    "Calibration",
    "CalibrationBin",
    "Client",
    "ConflictError",
    "Coverage",
    "Curve",
    "CurvePoint",
    "Dataset",
    "DeadlineExceededError",
    "FieldError",
    "ForbiddenError",
    "Fork",
    "Gain",
    "GivenSettings",
    "Health",
    "HistoryStep",
    "ImportedRun",
    "InvalidRequestError",
    "JournalEntry",
    "Lease",
    "Leases",
    "Listing",
    "MixShare",
    "NewApiKey",
    "NotFoundError",
    "Outcome",
    "Outlook",
    "Outlooks",
    "Overview",
    "OverviewTotals",
    "PoolChange",
    "Predicted",
    "Problem",
    "PrunedRun",
    "Pruning",
    "Receipt",
    "RefusedReports",
    "RequestError",
    "ResilientClient",
    "Retries",
    "Run",
    "RunSummary",
    "RunVerdict",
    "SelectedTask",
    "Selection",
    "Selector",
    "ServiceError",
    "Settings",
    "Snapshot",
    "StaleEpochError",
    "Subset",
    "TagComparison",
    "TagSums",
    "Task",
    "TaskBelief",
    "TaskColumns",
    "TaskCounts",
    "TaskVisit",
    "Totals",
    "UnreachableError",
    "VerifierAlarm",
    "Version",
    "WhoAmI",
    "__version__",
]
