"""Groups of rollouts that the verifier guard holds out of a run's belief."""

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.bodies import CONTROL_LIMIT, JSON, Body
from bots_service.api.decoding import decode_plain
from bots_service.api.idempotency import answered_once
from bots_service.api.openapi import answers_with, reads
from bots_service.api.parameters import DatasetName, RunName, use_cases_of
from bots_service.api.problems import BODY, EVERY, ONCE, RUN, documented
from bots_service.api.routes.runs import EXAMPLE, changed_response
from bots_service.api.security import allowed, guarded_router
from bots_service.core.checks import Tag
from bots_service.core.entries import GuardDecision
from bots_service.core.guard import Decision
from bots_service.errors import NothingToDecideError
from bots_service.ports.keys import Scope
from bots_service.usecases.change_run import ChangeRunResult

router = guarded_router(tags=["runs"])


class DecisionRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What to do about rewards that raised alarms.

    decision: "release" if the rewards were right after all: the groups that were held enter the belief. "drop" if they
        were wrong: these groups are left out for good.
    tag: whose alarm; null for all that stand.
    """

    decision: Decision
    tag: Tag | None = None


_DECISION = msgspec.json.Decoder(DecisionRequest)


@router.post(
    "/datasets/{dataset}/runs/{run}/held",
    summary="Decide about held groups",
    response_class=Response,
    openapi_extra=reads(DecisionRequest("drop")),
    responses={**answers_with(EXAMPLE), **documented(*EVERY, *BODY, *ONCE, *RUN, NothingToDecideError)},
)
@allowed(Scope.ADMIN)
async def decide_held(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Decide about groups of rollouts that the verifier guard holds out of the belief; written to the journal.

    After "release", the same rewards count until they vary again. After "drop", groups wait as long as they don't, and
    raise the alarm again.
    """
    use_cases = use_cases_of(request)
    body = Body(request, {JSON: CONTROL_LIMIT})
    asked = decode_plain(_DECISION, await body.whole())

    async def act() -> ChangeRunResult:
        decision = GuardDecision(asked.decision, asked.tag)
        return await use_cases.decide_held(dataset, run, decision, body.idempotency_key())

    return await answered_once(use_cases.answers, body, ChangeRunResult, act, changed_response)
