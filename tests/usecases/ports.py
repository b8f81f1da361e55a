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


class Outage:
    """Lets some calls of the port it is given fail as long as it lasts."""

    def __init__(self, *calls: str, lasts: bool = True) -> None:
        self.calls, self.lasts = calls, lasts

    def __call__(self, real: Any) -> Port:
        return _Cut(real, self)

    async def refuse(self, *_arguments: object, **_named: object) -> None:
        raise StorageUnavailableError("the database did not answer")


class _Cut(Port):
    def __init__(self, real: Any, outage: Outage) -> None:
        super().__init__(real)
        self.outage = outage

    def __getattr__(self, name: str) -> Any:
        return self.outage.refuse if self.outage.lasts and name in self.outage.calls else super().__getattr__(name)
