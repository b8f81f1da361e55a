"""What routes read of their application."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from starlette.applications import Starlette

from bots_service.metrics.process import Metrics
from bots_service.usecases import UseCases

if TYPE_CHECKING:  # both read parameters, which read this
    from bots_service.api.overload import Line
    from bots_service.api.uploads import UploadLimits


@dataclass
class AppState:
    """The parts of one application; Starlette's own `app.state` knows no types.

    uploads: how much may come at once.
    schema: the revision of the database's tables.
    metrics: of this process.
    line: of training requests that wait for their turn.
    use_cases: there while the application runs, for its stores are opened when it starts.
    metrics_of_all: returns the metrics of all workers of a service; None where this process is the only one.
    """

    uploads: "UploadLimits"
    schema: str
    metrics: Metrics
    line: "Line"
    use_cases: UseCases = field(init=False)
    metrics_of_all: Callable[[], Awaitable[bytes]] | None = None

    def attach(self, app: Starlette) -> None:
        """Let `state_of` find this."""
        app.state.typed = self


def state_of(app: Starlette) -> AppState:
    """Return what routes read of the application."""
    return cast(AppState, app.state.typed)
