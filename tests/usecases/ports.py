"""Ports that differ from the real ones in one call. A world is opened with them: `world.beside(journal=Slow)`."""

from collections.abc import Callable
from typing import Any

from bots_service.errors import StorageUnavailableError

Wrap = Callable[[Any], Any]  # returns the port to use, given the real one


class Port:
    """Hands every call on to the real port. Derive a class and define the calls that differ."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def failing(*calls: str) -> "Callable[[Any], Failing]":
    """Return what makes a port of which these calls fail once its `is_away` is set."""
    return lambda real: Failing(real, calls)


class Failing(Port):
    """A port some calls of which fail as long as its store is away."""

    def __init__(self, real: Any, calls: tuple[str, ...]) -> None:
        super().__init__(real)
        self.calls, self.is_away = calls, False

    def __getattr__(self, name: str) -> Any:
        return self._refuse if self.is_away and name in self.calls else getattr(self.real, name)

    async def _refuse(self, *_arguments: object, **_named: object) -> None:
        raise StorageUnavailableError("the database did not answer")
