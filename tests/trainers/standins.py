"""Stand-ins for third-party packages that trainers import and tests of their hooks never call.

A hook of a trainer is a method of a class in a module whose imports want GPUs, inference engines and gigabytes. Within
`standing_in` any module of the packages named imports, and whatever is asked of it is an empty class: it can be derived
from, called, subscripted and used as a decorator, and does nothing. The trainer's own modules are the real ones. For
trainers that are no package to fetch, `adapter_on` takes files of a checkout, or the least that they do, in our words.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

Modules = Mapping[str, Mapping[str, object]]


class _Kind(type):
    """Lets classes do what modules expect of names they import."""

    def __getattr__(cls, name: str) -> Any:
        return _name(name)

    def __getitem__(cls, item: object) -> Any:
        return cls

    def __iter__(cls) -> Iterator[Any]:
        return iter(())  # else __getitem__ would make an endless one

    def __or__(cls, other: object) -> Any:
        return cls

    __ror__ = __or__

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and (isinstance(args[0], type) or callable(args[0])):
            return args[0]  # it decorates
        return super().__call__(*args, **kwargs)


class _Empty(metaclass=_Kind):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Empty()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def _name(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Kind(name, (_Empty,), {})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = frozenset(packages)

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name.partition(".")[0] not in self.packages:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = ModuleType(spec.name)
        module.__getattr__ = _name  # type: ignore[method-assign]
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__version__ = "0.0.0"  # type: ignore[attr-defined]


@contextmanager
def standing_in(*packages: str, for_: Path) -> Iterator[None]:
    """Put a trainer's folder on the path, and stand-ins for top-level packages, installed or not; then undo both."""
    finder = _Finder(packages)
    before = dict(sys.modules)
    for name in before:
        if name.partition(".")[0] in finder.packages:
            del sys.modules[name]
    sys.meta_path.insert(0, finder)
    sys.path.insert(0, str(for_))
    try:
        yield
    finally:
        sys.path.remove(str(for_))
        sys.meta_path.remove(finder)
        own = {path.name.partition(".")[0] for path in for_.iterdir()}
        for name in set(sys.modules) - set(before):
            if name.partition(".")[0] in finder.packages | own:
                del sys.modules[name]
        sys.modules.update(before)


@contextmanager
def adapter_on(name: str, *, path: str | None, protocol: Modules, stand_ins: Modules) -> Iterator[ModuleType]:
    """Yield one of our integrations on its trainer; afterwards nothing of either is left.

    path: folder with the trainer's own modules; without one, the modules of the protocol, with their members, stand for
    the whole trainer. stand_ins: modules that the trainer's own want; each stands in only where it does not import.
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
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def stand_in(modules: Modules) -> None:
    for name, members in modules.items():
        module = ModuleType(name)
        module.__path__ = []
        vars(module).update(members)
        sys.modules[name] = module
