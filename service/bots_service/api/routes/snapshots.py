"""Snapshots of a run: stored states, made on demand."""

from datetime import datetime

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.bodies import NoBody
from bots_service.api.cursors import AfterNumber, read_cursor, write_cursor
from bots_service.api.idempotency import answered_once
from bots_service.api.openapi import answers_with
from bots_service.api.parameters import KEYED, Cursor, DatasetName, Limit, RunName, services_of
from bots_service.api.problems import EVERY, ONCE, RUN, documented
from bots_service.api.responses import EXAMPLE_TIME, json_response, moment
from bots_service.api.security import allowed, guarded_router
from bots_service.keys import Scope
from bots_service.records import SnapshotRow

router = guarded_router(tags=["runs"])


class Snapshot(Struct, frozen=True):
    """A stored state.

    bytes: the size of the state.
    checksum: of the bytes.
    """

    seq: int
    epoch: int
    step: int
    bytes: int
    checksum: str
    created_at: datetime

    @classmethod
    def from_row(cls, row: SnapshotRow) -> "Snapshot":
        """Return the answer for a row."""
        return cls(row.seq, row.epoch, row.step, row.bytes, row.checksum, moment(row.created_at))


class SnapshotPage(Struct, frozen=True):
    """A page of stored states, by seq.

    snapshots: the states.
    """

    snapshots: list[Snapshot]
    next_cursor: str | None


EXAMPLE = Snapshot(12, 0, 12, 240_128, "5f2c9a01d4e65f2c9a01d4e65f2c9a01", EXAMPLE_TIME)


@router.post(
    "/datasets/{dataset}/runs/{run}/snapshots",
    summary="Store a snapshot of a run",
    status_code=201,
    response_class=Response,
    openapi_extra=KEYED,
    responses={**answers_with(EXAMPLE, {201: "The snapshot was stored."}), **documented(*EVERY, *ONCE, *RUN)},
)
@allowed(Scope.REPORT)
async def take_snapshot(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Store the run's present state. The thinning of automatic snapshots does not remove it."""
    services = services_of(request)
    body = NoBody(request)

    async def act() -> SnapshotRow:
        return await services.runs.take_snapshot(dataset, run, body.idempotency_key())

    def respond(row: SnapshotRow) -> Response:
        return json_response(Snapshot.from_row(row), 201)

    return await answered_once(services.store.answers, body, SnapshotRow, act, respond)


@router.get(
    "/datasets/{dataset}/runs/{run}/snapshots",
    summary="List a run's snapshots",
    response_class=Response,
    responses={**answers_with(SnapshotPage([EXAMPLE], None)), **documented(*EVERY, *RUN)},
)
@allowed(Scope.READ)
async def list_snapshots(
    request: Request, dataset: DatasetName, run: RunName, limit: Limit = 100, cursor: Cursor = None
) -> Response:
    """Return stored states by seq."""
    services = services_of(request)
    # An empty journal has a state too, after entry 0, so the first page begins behind -1.
    after = -1 if cursor is None else read_cursor(cursor, AfterNumber).number
    rows = await services.runs.snapshots(dataset, run, after, limit + 1)
    following = write_cursor(AfterNumber(rows[limit - 1].seq)) if len(rows) > limit else None
    return json_response(SnapshotPage([Snapshot.from_row(row) for row in rows[:limit]], following))
