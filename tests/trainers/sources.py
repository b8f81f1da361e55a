"""Trainers that are no package to fetch: their files in a checkout, or the least that they do, in our own words."""

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType

import pytest

Modules = Mapping[str, Mapping[str, object]]


@contextmanager
def adapter_on(name: str, *, path: str | None, protocol: Modules, stand_ins: Modules) -> Iterator[ModuleType]:
    """Yield one of our integrations on its trainer; afterwards nothing of either is left.

    Args:
        name: of the integration.
        path: folder with the trainer's own modules; None: there is none.
        protocol: modules, with their members, that stand for the whole trainer where there is no folder.
        stand_ins: modules that the trainer's own want; each stands in only where it does not import.
    """
    before = dict(sys.modules)
    ours = f"bots_client.integrations.{name}"
    with pytest.MonkeyPatch.context() as patch:
        if path is None:
            stand_in(protocol)
        else:
            patch.syspath_prepend(path)
            stand_in({name: members for name, members in stand_ins.items() if not imports(name)})
        yield importlib.import_module(ours)
    theirs = {module.partition(".")[0] for module in (*protocol, *stand_ins)}
    for module in set(sys.modules) - set(before):
        if module == ours or module.partition(".")[0] in theirs:
            del sys.modules[module]


def imports(name: str) -> bool:
    """Say whether a module can be had."""
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def stand_in(modules: Modules) -> None:
    """Put modules with these members in place."""
    for name, members in modules.items():
        module = ModuleType(name)
        module.__path__ = []
        vars(module).update(members)
        sys.modules[name] = module
