"""Thin client of the BOTS selector: select tasks, report outcomes.

from bots_client import Client, Outcome

with Client() as bots:
    selection = bots.select("guru", 32)
    bots.report("guru", [Outcome.rewards(task, train(task)) for task in selection.ids], selection=selection)
"""

__version__ = "0.1.0"

from bots_client._client import Client
from bots_client._errors import (
    AuthenticationError,
    BotsClientError,
    ConflictError,
    DeadlineExceededError,
    FieldError,
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    RequestError,
    ServiceError,
    StaleEpochError,
    UnreachableError,
)
from bots_client._http import Retries
from bots_client._inputs import GivenSettings, Outcome, ReferenceColumn, Task, TaskColumns, find_references
from bots_client._models import (
    ApiKey,
    Calibration,
    CalibrationBin,
    Coverage,
    Curve,
    CurvePoint,
    Dataset,
    Fork,
    Gain,
    HistoryStep,
    ImportedRun,
    JournalEntry,
    LastEvaluation,
    Lease,
    Leases,
    MixShare,
    NewApiKey,
    Overview,
    OverviewTotals,
    Receipt,
    RefusedReports,
    Run,
    RunSummary,
    RunVerdict,
    SelectedTask,
    Selection,
    Settings,
    Subset,
    TaskBelief,
    TaskCounts,
    Totals,
    VerifierAlarm,
    Version,
    WhoAmI,
)
from bots_client._resilience.client import ResilientClient
from bots_client._resilience.connection import Health
from bots_client._selector import AsyncSelector, Selector
from bots_client._tables import Listing

__all__ = [
    "ApiKey", "AsyncSelector", "AuthenticationError", "BotsClientError", "Calibration", "CalibrationBin", "Client",
    "ConflictError", "Coverage", "Curve", "CurvePoint", "Dataset", "DeadlineExceededError", "FieldError",
    "ForbiddenError", "Fork", "Gain", "GivenSettings", "Health", "HistoryStep", "ImportedRun", "InvalidRequestError",
    "JournalEntry", "LastEvaluation", "Lease", "Leases", "Listing", "MixShare", "NewApiKey", "NotFoundError", "Outcome",
    "Overview", "OverviewTotals", "Receipt", "ReferenceColumn", "RefusedReports", "RequestError",
    "ResilientClient", "Retries", "Run", "RunSummary", "RunVerdict", "SelectedTask", "Selection", "Selector",
    "ServiceError", "Settings", "StaleEpochError", "Subset", "Task", "TaskBelief",
    "TaskColumns", "TaskCounts", "Totals", "UnreachableError", "VerifierAlarm", "Version", "WhoAmI",
    "__version__", "find_references",
]  # fmt: skip
