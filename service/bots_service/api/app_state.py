"""The state of an application, for its routes."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from starlette.applications import Starlette

from bots_service.metrics.process import Metrics
from bots_service.services import Services

if TYPE_CHECKING:  # avoids an import cycle through parameters
    from bots_service.api.overload import Line
    from bots_service.api.uploads import UploadLimits


@dataclass
class AppState:
    """The typed state of one application; Starlette's own `app.state` is untyped.

    uploads: limits of uploads.
    schema: revision of the database's tables.
    metrics: of this process.
    line: the queue of training requests.
    downloads: the queue of answers that hold a whole pool.
    services: set while the application runs, because its stores are opened at the start.
    metrics_of_all: returns the metrics of all workers; None if there is only this process.
    """

    uploads: "UploadLimits"
    schema: str
    metrics: Metrics
    line: "Line"
    downloads: "Line"
    services: Services = field(init=False)
    metrics_of_all: Callable[[], Awaitable[bytes]] | None = None


def state_of(app: Starlette) -> AppState:
    """Return the state of an application."""
    return cast(AppState, app.state.typed)
