"""Predictions of a dataset: put from an upload or from a run, and removed."""

from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.app_state import state_of
from bots_service.api.bodies import JSON, TRAINING_LIMIT, Body
from bots_service.api.decoding import decode_plain
from bots_service.api.idempotency import answered_once
from bots_service.api.openapi import BINARY, Media, answers_with, reads
from bots_service.api.parameters import KEYED, DatasetName, PredictionsName, RunName, services_of
from bots_service.api.problems import DATASET, EVERY, ONCE, RUN, WRITE
from bots_service.api.responses import json_response
from bots_service.api.route_kinds import RouteKind
from bots_service.api.routes.datasets import EXAMPLE, Dataset, Predicted
from bots_service.api.security import allowed, guarded_router
from bots_service.api.task_formats.predictions import PredictionRequest, PredictionsRequest, open_predictions
from bots_service.api.uploads import NDJSON, PARQUET
from bots_service.core.checks import NAME
from bots_service.errors import (
    InvalidTasksError,
    LimitReachedError,
    UnknownPredictionsError,
    UnknownStepError,
)
from bots_service.keys import Scope
from bots_service.records import DatasetRow

router = guarded_router(tags=["datasets"])

UPLOADS: Media = {
    NDJSON: {"schema": {"type": "string", "examples": ['{"id": "gsm8k-17", "pass_rate": 0.25}\n']}},
    PARQUET: BINARY,
}
PREDICTED = msgspec.structs.replace(EXAMPLE, predictions=(Predicted("probe", 7473, 0.41, 16),))


class RunPredictionsRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What a run believes, as predictions.

    name: of the predictions; any of this name are replaced.
    step: after which the run believes so; null: after the last one.
    """

    name: Annotated[str, Meta(pattern=NAME)]
    step: Annotated[int, Meta(ge=0, le=2**53)] | None = None


_FROM_RUN = msgspec.json.Decoder(RunPredictionsRequest)


@router.put(
    "/datasets/{dataset}/predictions/{name}",
    summary="Store predictions",
    openapi_extra=reads(PredictionsRequest([PredictionRequest("gsm8k-17", 0.25)]), UPLOADS),
    responses=answers_with(PREDICTED, *WRITE, *DATASET, InvalidTasksError, LimitReachedError),
)
@allowed(Scope.ADMIN, kind=RouteKind.UPLOAD)
async def put_predictions(request: Request, dataset: DatasetName, name: PredictionsName) -> Response:
    """Put predicted pass rates from JSON, NDJSON (one task per line) or Parquet, in place of those of the same name.

    New runs see them, and runs without a journal entry. All others keep what they know.
    """
    services = services_of(request)
    uploads = state_of(request.app).uploads
    body = Body(request, uploads.by_media_type)

    async def act() -> DatasetRow:
        async with open_predictions(body, ndjson=NDJSON, max_tasks=uploads.max_tasks) as blocks:
            return await services.datasets.put_predictions(dataset, name, blocks, body.idempotency_key)

    return await answered_once(services.store.answers, body, DatasetRow, act, _respond)


@router.delete(
    "/datasets/{dataset}/predictions/{name}",
    summary="Remove predictions",
    openapi_extra=KEYED,
    responses=answers_with(EXAMPLE, *EVERY, *ONCE, *DATASET, UnknownPredictionsError),
)
@allowed(Scope.ADMIN)
async def drop_predictions(request: Request, dataset: DatasetName, name: PredictionsName) -> Response:
    """Remove predictions: new runs no longer see them. Runs that know them keep them."""
    services, body = services_of(request), Body(request)
    act = partial(services.datasets.drop_predictions, dataset, name, body.idempotency_key())
    return await answered_once(services.store.answers, body, DatasetRow, act, _respond)


@router.post(
    "/datasets/{dataset}/runs/{run}/predictions",
    summary="Store the beliefs of a run as predictions",
    openapi_extra=reads(RunPredictionsRequest("first-attempt")),
    responses=answers_with(PREDICTED, *WRITE, *RUN, UnknownStepError, InvalidTasksError, LimitReachedError),
)
@allowed(Scope.ADMIN)
async def put_predictions_of_run(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Put what a run believes of the tasks that it has evidence of as predictions of its dataset.

    All other tasks have none.
    """
    services = services_of(request)
    body = Body(request, {JSON: TRAINING_LIMIT})
    wanted = decode_plain(_FROM_RUN, await body.whole())

    act = partial(services.runs.put_predictions, dataset, run, wanted.name, wanted.step, body.idempotency_key)
    return await answered_once(services.store.answers, body, DatasetRow, act, _respond)


def _respond(row: DatasetRow) -> Response:
    return json_response(Dataset.from_row(row))
