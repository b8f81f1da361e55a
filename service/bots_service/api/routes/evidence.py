"""POST evidence: what old logs say, for a run to learn from."""

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.bodies import JSON, TRAINING_LIMIT, Body
from bots_service.api.decoding import decode, decode_plain
from bots_service.api.openapi import answers_with, reads
from bots_service.api.parameters import DatasetName, RunName, use_cases_of
from bots_service.api.problems import BODY, EVERY, RUN, documented
from bots_service.api.responses import json_response
from bots_service.api.routes.training import PLAIN_BYTES
from bots_service.api.security import allowed, guarded_router
from bots_service.errors import InvalidOutcomesError, KeyReusedError
from bots_service.ports.keys import Scope
from bots_service.usecases.import_evidence import EvidenceRequest, EvidenceResult, PastOutcome

router = guarded_router(tags=["runs"])


class EvidenceResponse(Struct, frozen=True):
    """What became of evidence from old logs. No step closed.

    seq: the number of its journal entry.
    step: how many steps had closed.
    outcomes: how many outcomes the belief learned from.
    rollouts: how many rollouts they had.
    capability: the capability afterwards; null if it is not known, or not estimated by this belief.
    duplicate: the evidence had been received before and was not counted again.
    degraded: the evidence is durable, but other replicas see it only once the shared store is back.
    """

    seq: int
    step: int
    outcomes: int
    rollouts: float
    capability: float | None
    duplicate: bool
    degraded: bool

    @classmethod
    def from_result(cls, result: EvidenceResult) -> "EvidenceResponse":
        """Return the answer for a result."""
        return cls(*result)


_DECODER = msgspec.json.Decoder(EvidenceRequest)

EXAMPLE_REQUEST = EvidenceRequest(
    [PastOutcome("gsm8k-17", successes=5, trials=8, age=120), PastOutcome("gsm8k-4", rewards=[0.0, 1.0], age=0)]
)
EXAMPLE = EvidenceResponse(seq=1, step=0, outcomes=2, rollouts=10.0, capability=None, duplicate=False, degraded=False)


@router.post(
    "/datasets/{dataset}/runs/{run}/evidence",
    summary="Import evidence from old logs",
    response_class=Response,
    openapi_extra=reads(EXAMPLE_REQUEST),
    responses={
        **answers_with(EXAMPLE),
        **documented(*EVERY, *BODY, *RUN, KeyReusedError, InvalidOutcomesError),
    },
)
@allowed(Scope.REPORT)
async def import_evidence(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Append rollouts of earlier training to the run's journal; its belief learns from each by its age.

    They are not the run's own: attempts, totals and steps stay as they are. Safe to retry under a key.
    """
    use_cases = use_cases_of(request)
    body = Body(request, {JSON: TRAINING_LIMIT})
    text = await body.whole()
    wanted = decode_plain(_DECODER, text) if len(text) <= PLAIN_BYTES else decode(_DECODER, text)
    result = await use_cases.import_evidence(dataset, run, wanted, body.idempotency_key())
    return json_response(EvidenceResponse.from_result(result), replayed=result.duplicate)
