"""POST /report: what rollouts showed."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.answers import json_response
from bots_service.api.bodies import JSON, TRAINING_LIMIT, Body
from bots_service.api.decoding import decode, decode_plain
from bots_service.api.direct_route import DirectRoute
from bots_service.api.openapi import answers_with, reads
from bots_service.api.parameters import use_cases_of
from bots_service.api.problems import documented
from bots_service.api.requests import ReportRequest
from bots_service.api.routes.common import BODY, EVERY, ONCE, RUN
from bots_service.api.security import About, allowed, guarded_router, require_dataset, tell_names
from bots_service.api.training_answers import ReportAnswer
from bots_service.errors import InvalidOutcomesError, InvalidSelectionError, StaleEpochError
from bots_service.ports.keys import Scope
from bots_service.usecases.report_outcomes import ReportCommand

router = guarded_router(tags=["training"], route_class=DirectRoute)

# To look for names that are given twice costs a report of 160 outcomes 0.1 of its 3 ms; one of 4096, 3 of its 10 ms.
PLAIN_BYTES = 8 * 1024

_REPORT = msgspec.json.Decoder(ReportRequest)


@router.post(
    "/report",
    response_class=Response,
    openapi_extra=reads(ReportRequest),
    responses={
        **answers_with(ReportAnswer),
        **documented(*EVERY, *BODY, *ONCE, *RUN, InvalidOutcomesError, InvalidSelectionError, StaleEpochError),
    },
)
@allowed(Scope.REPORT, about=About.BODY)
async def report_outcomes(request: Request) -> Response:
    """Append the outcomes to the run's journal; answered once that is committed.

    Safe to retry under a key: the first answer comes again, with `duplicate` set, and nothing is counted twice.
    """
    use_cases = use_cases_of(request)
    body = Body(request, {JSON: TRAINING_LIMIT})
    text = await body.whole()
    report = decode_plain(_REPORT, text) if len(text) <= PLAIN_BYTES else decode(_REPORT, text)
    tell_names(request, {"dataset": report.dataset, "run": report.run})
    require_dataset(request, report.dataset)
    news = ReportCommand(
        dataset=report.dataset,
        run=report.run,
        outcomes=report.outcomes,
        selection_id=report.selection_id,
        close_step=report.close_step,
    )
    reported = await use_cases.report_outcomes(news, body.once())
    return json_response(ReportAnswer.of(reported), replayed=reported.duplicate)
