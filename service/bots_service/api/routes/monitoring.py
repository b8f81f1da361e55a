"""GET /metrics, for Prometheus."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.security import About, allowed, guarded_router
from bots_service.metrics.exposition import MEDIA_TYPE
from bots_service.metrics.process import Metrics
from bots_service.ports.keys import Scope

router = guarded_router(tags=["service"])

DESCRIPTION = "All metrics, in Prometheus's text format."


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"description": DESCRIPTION, "content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}},
)
@allowed(Scope.READ, about=About.EVERY)
async def tell_metrics(request: Request) -> Response:
    """Return what was counted, by all workers of this service. Asks no store."""
    of_all: Callable[[], Awaitable[bytes]] | None = request.app.state.metrics_of_all
    metrics: Metrics = request.app.state.metrics
    return Response(metrics.text() if of_all is None else await of_all(), media_type=MEDIA_TYPE)
