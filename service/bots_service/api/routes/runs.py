"""Runs: created, read, changed, rewound, deleted."""

from datetime import datetime
from functools import partial
from types import NoneType
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.bodies import CONTROL_LIMIT, JSON, Body
from bots_service.api.cursors import AfterName, read_cursor, write_cursor
from bots_service.api.decoding import decode_plain
from bots_service.api.idempotency import answered_once
from bots_service.api.openapi import answers_with, reads
from bots_service.api.parameters import KEYED, Cursor, DatasetName, Limit, RunName, services_of
from bots_service.api.problems import DATASET, EVERY, ONCE, RUN, WRITE, documented
from bots_service.api.responses import EXAMPLE_TIME, filled, json_response, moment, no_content
from bots_service.api.run_settings import SettingsInUse, SettingsRequest
from bots_service.api.security import ANY_SCOPE, allowed, caller_of, guarded_router
from bots_service.core.checks import MAX_IDS, Name, TaskId
from bots_service.core.guard import VerifierAlarm
from bots_service.core.mixing import MixShare
from bots_service.core.outlook import Coverage
from bots_service.core.receipt import Totals
from bots_service.core.run_settings import RunSettings
from bots_service.errors import (
    InvalidSettingsError,
    InvalidTasksError,
    LimitReachedError,
    RunHasHistoryError,
    UnknownStepError,
)
from bots_service.keys import Scope
from bots_service.records import Parent, RunPut
from bots_service.runs import ChangeRunResult, ForkFrom, PutRunResult, RunDescription

router = guarded_router(tags=["runs"])


class ForkRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a run starts: another run, at a step that closed there.

    step: the step of the other run; left out, the last that closed.
    """

    run: Name
    step: Annotated[int, Meta(ge=0, le=2**53)] | None = None


class RunRequest(SettingsRequest, frozen=True, forbid_unknown_fields=True):
    """Settings of a new run, and where it starts.

    fork: the run to continue.
    """

    fork: ForkRequest | None = None


class RewindRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The step that the run goes back to.

    step: a step that closed in the run's present history; 0 for the beginning.
    """

    step: Annotated[int, Meta(ge=0, le=2**53)]


class ForgetRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Tasks that are other tasks now, because a label or a verifier was mended.

    tasks: their ids.
    """

    tasks: Annotated[list[TaskId], Meta(min_length=1, max_length=MAX_IDS)]


class Run(Struct, frozen=True):
    """The present state of a run.

    settings: those in use.
    estimates: what the belief estimates about the model in training, by name; empty if nothing is known yet. The first
        tells where the model stands: `capability` with the belief `bots`, `ability` with `tracker` (docs/tracker.md
        explains all of its estimates).
    uniform_effective_task_ratio: what the belief expects uniform sampling to have now; null where all tasks are
        retired.
    rollouts_per_task: in use: the setting, or learned from what was reported; null before the first report.
    pending: tasks with evidence in the open step.
    unfinished_groups: groups of rollouts that were reported in part; each counts when it is whole.
    aborting_tasks: tasks that were aborted three times in a row or more. They rest, and are tried again now and then.
    leased: tasks in flight.
    degraded: the shared store is unreachable, so other replicas may know a newer state and more tasks in flight.
    totals: sums over all closed steps; tokens and seconds as far as outcomes say what they cost.
    coverage: how the visits spread over the pool; a visit is a step that reported the task.
    advice: hints about the run, such as where selection brings little; a sentence or two each.
    mix: the tags of the run's mix, by name; empty without one.
    forked_from: the run that it continues; null if none.
    predictions: names of the predictions that it knows.
    alarms: those of the verifier guard that stand, the whole run's first.
    """

    dataset: str
    run: str
    settings: SettingsInUse
    epoch: int
    step: int
    seq: int
    capability: float | None
    estimates: dict[str, float]
    uniform_effective_task_ratio: float | None
    rollouts_per_task: float | None
    pending: int
    unfinished_groups: int
    aborting_tasks: int
    leased: int
    degraded: bool
    totals: Totals
    coverage: Coverage
    advice: tuple[str, ...]
    mix: tuple[MixShare, ...]
    forked_from: Parent | None
    created_at: datetime
    predictions: tuple[str, ...]
    alarms: tuple[VerifierAlarm, ...]

    @classmethod
    def from_description(cls, run: RunDescription) -> "Run":
        """Return the answer for a run."""
        return filled(
            cls,
            run,
            run=run.row.name,
            settings=SettingsInUse(**run.settings.in_use()),
            forked_from=run.row.parent,
            created_at=moment(run.row.created_at),
            predictions=tuple(each.name for each in run.row.predictions),
        )


class RunPage(Struct, frozen=True):
    """A page of runs, by name.

    runs: the runs.
    """

    runs: list[Run]
    next_cursor: str | None


_PUT = msgspec.json.Decoder(RunRequest)
_PATCH = msgspec.json.Decoder(SettingsRequest)
_FORGET = msgspec.json.Decoder(ForgetRequest)
_REWIND = msgspec.json.Decoder(RewindRequest)


EXAMPLE_COVERAGE = Coverage(
    available_tasks=7473,
    distinct_tasks=683,
    reached_share=0.0914,
    mean_visits=1.124,
    most_visits=4,
    top_tenth_share=0.19,
    pass_steps=117,
    unmet_share=None,
    visits_per_met_task=None,
    passes_done=0,
    pass_share=0.13,
    narrow=False,
    reason=None,
)
EXAMPLE = Run(
    dataset="gsm8k",
    run="default",
    settings=SettingsInUse(**RunSettings().in_use()),
    epoch=0,
    step=12,
    seq=12,
    capability=None,
    estimates={
        "ability": 0.41,
        "slope_1": 0.83,
        "unknown_offset": -0.27,
        "velocity": 0.004,
        "untried_variance": 1.9,
        "residual_drift": 0.011,
        "ability_drift": 0.002,
    },
    uniform_effective_task_ratio=0.45,
    rollouts_per_task=8.0,
    pending=0,
    unfinished_groups=0,
    aborting_tasks=0,
    leased=64,
    degraded=False,
    totals=Totals(
        reported=768,
        effective=531,
        all_solved=96,
        none_solved=141,
        rollouts=6144.0,
        successes=2950.0,
        distinct=683,
        tokens=5529600.0,
    ),
    coverage=EXAMPLE_COVERAGE,
    advice=(),
    mix=(),
    forked_from=None,
    created_at=EXAMPLE_TIME,
    predictions=("probe",),
    alarms=(),
)


@router.put(
    "/datasets/{dataset}/runs/{run}",
    summary="Create a run",
    openapi_extra=reads(RunRequest(target=0.6, fork=ForkRequest("default", 10))),
    responses=answers_with(
        EXAMPLE,
        *WRITE,
        *RUN,
        UnknownStepError,
        InvalidSettingsError,
        RunHasHistoryError,
        LimitReachedError,
        meanings={200: "The run existed and has these settings now.", 201: "The run was created."},
    ),
)
@allowed(Scope.ADMIN)
async def put_run(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Create a run, or replace the settings of one whose journal is empty.

    It starts on its own, or continues another run.
    """
    services = services_of(request)
    body = Body(request, {JSON: CONTROL_LIMIT})
    wanted = decode_plain(_PUT, await body.whole())
    origin = None if wanted.fork is None else ForkFrom(wanted.fork.run, wanted.fork.step)
    if origin is not None:
        caller_of(request).require_run(dataset, origin.run)

    def respond(result: PutRunResult) -> Response:
        return json_response(Run.from_description(result.run), 201 if result.put is RunPut.CREATED else 200)

    act = partial(services.runs.put, dataset, run, wanted.given(), origin, body.idempotency_key())
    return await answered_once(services.store.answers, body, PutRunResult, act, respond)


@router.get(
    "/datasets/{dataset}/runs",
    summary="List a dataset's runs",
    responses=answers_with(RunPage([EXAMPLE], None), *EVERY, *DATASET),
)
@allowed(Scope.READ)
async def list_runs(request: Request, dataset: DatasetName, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Return by name the runs of a dataset that the caller's key reaches."""
    services = services_of(request)
    after = "" if cursor is None else read_cursor(cursor, AfterName)
    runs = await services.runs.page(dataset, after, limit + 1, caller_of(request))
    following = write_cursor(runs[limit - 1].row.name) if len(runs) > limit else None
    return json_response(RunPage([Run.from_description(run) for run in runs[:limit]], following))


@router.get(
    "/datasets/{dataset}/runs/{run}",
    summary="Get a run",
    responses=answers_with(EXAMPLE, *EVERY, *RUN),
)
@allowed(*ANY_SCOPE)
async def get_run(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Return a run's present state."""
    services = services_of(request)
    return json_response(Run.from_description(await services.runs.describe(dataset, run)))


@router.patch(
    "/datasets/{dataset}/runs/{run}",
    summary="Change a run's settings",
    openapi_extra=reads(SettingsRequest(target=0.6)),
    responses=answers_with(EXAMPLE, *WRITE, *RUN, InvalidSettingsError),
)
@allowed(Scope.ADMIN)
async def change_settings(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Change settings from the next step on; written to the journal. Belief and prior are fixed."""
    services = services_of(request)
    body = Body(request, {JSON: CONTROL_LIMIT})
    values = decode_plain(_PATCH, await body.whole()).given()
    return changed_response(await services.runs.change_settings(dataset, run, values, body.idempotency_key()))


def changed_response(result: ChangeRunResult) -> Response:
    """Return the answer to a change of a run."""
    return json_response(Run.from_description(result.run), replayed=result.duplicate)


@router.post(
    "/datasets/{dataset}/runs/{run}/rewind",
    summary="Rewind a run",
    openapi_extra=reads(RewindRequest(10)),
    responses=answers_with(EXAMPLE, *WRITE, *RUN, UnknownStepError),
)
@allowed(Scope.REPORT)
async def rewind_run(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Return to the state right after a step closed. Outcomes of earlier selections are refused from then on."""
    services = services_of(request)
    body = Body(request, {JSON: CONTROL_LIMIT})
    step = decode_plain(_REWIND, await body.whole()).step
    return changed_response(await services.runs.rewind(dataset, run, step, body.idempotency_key()))


@router.post(
    "/datasets/{dataset}/runs/{run}/forget",
    summary="Forget tasks",
    openapi_extra=reads(ForgetRequest(["gsm8k-17"])),
    responses=answers_with(EXAMPLE, *WRITE, *RUN, InvalidTasksError),
)
@allowed(Scope.REPORT)
async def forget_tasks(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Forget what the run knows of some tasks alone; written to the journal.

    They then count as never tried. What their rollouts say about other tasks stays, as do all counts.
    """
    services = services_of(request)
    body = Body(request, {JSON: CONTROL_LIMIT})
    tasks = decode_plain(_FORGET, await body.whole()).tasks
    return changed_response(await services.runs.forget_tasks(dataset, run, tasks, body.idempotency_key()))


@router.delete(
    "/datasets/{dataset}/runs/{run}",
    summary="Delete a run",
    status_code=204,
    openapi_extra=KEYED,
    responses=documented(*EVERY, *ONCE, *RUN),
)
@allowed(Scope.ADMIN)
async def delete_run(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Delete a run. The run `default` is created again at once, empty."""
    services, body = services_of(request), Body(request)
    act = partial(services.runs.delete, dataset, run, body.idempotency_key())
    return await answered_once(services.store.answers, body, NoneType, act, no_content)
