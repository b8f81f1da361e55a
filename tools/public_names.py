"""The names that docs/versions.md promises: of the client, of commands, variables and metrics."""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from typer.main import get_command

import bots_client
from bots_service.cli.app import app
from bots_service.settings import Settings

METRIC = re.compile("^# TYPE (bots_.*)", re.MULTILINE)  # a line of /metrics that names one of ours
ANYTHING = ("self", "cls", "args", "kwargs")


def public_names(metrics: str) -> list[str]:
    """Return all of them, sorted; a variable's with its default, a metric's with its kind.

    Args:
        metrics: what /metrics says of a service that has runs.
    """
    variables = (f"variable BOTS_{name.upper()}={field.default}" for name, field in Settings.model_fields.items())
    counted = (f"metric {name}" for name in METRIC.findall(metrics))
    return sorted({*variables, *counted, *_of_client(), *_of_commands(get_command(app), ("bots",))})


def _of_client() -> Iterator[str]:
    for name in bots_client.__all__:
        value = getattr(bots_client, name)
        yield f"client {name}"
        if inspect.isclass(value):
            yield from _of_class(name, value)
        elif callable(value):
            yield from _parameters(name, value)


def _of_class(name: str, kind: type) -> Iterator[str]:
    yield from (f"client {name}.{field}" for field in getattr(kind, "__dataclass_fields__", ()) if field[0] != "_")
    for method, value in inspect.getmembers(kind):
        if method == "__init__" and not issubclass(kind, BaseException):
            yield from _parameters(name, value)
        elif not method.startswith("_"):
            yield f"client {name}.{method}"
            if callable(value):
                yield from _parameters(f"{name}.{method}", value)


def _parameters(name: str, function: Callable[..., object]) -> Iterator[str]:
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # of a method written in C, which this package has none of
        return
    yield from (f"client {name}({parameter})" for parameter in parameters if parameter not in ANYTHING)


def _of_commands(command: Any, path: tuple[str, ...]) -> Iterator[str]:
    name = " ".join(path)
    yield f"command {name}"
    for parameter in command.params:
        is_option = parameter.param_type_name == "option"
        yield from (f"command {name} {part}" for part in (parameter.opts if is_option else [f"<{parameter.name}>"]))
    # Typer brings a click of its own, whose classes are no part of its interface.
    for part, inner in getattr(command, "commands", {}).items():
        yield from _of_commands(inner, (*path, part))
