"""The settings of a run as options, declared once for every command that takes them."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, ParamSpec, TypeVar

import typer

from bots_service.core.run_settings import CapabilityRule, Strategy

P = ParamSpec("P")
R = TypeVar("R")


def _settings(
    *,
    forgetting: Annotated[float | None, typer.Option(help="Share of the past that each step drops: lambda.")] = None,
    implicit_weight: Annotated[float | None, typer.Option(help="Trust in what other tasks imply: rho.")] = None,
    rollouts_per_task: Annotated[
        float | None, typer.Option(help="Rollouts that one implied observation stands for: m; 0: learned.", min=0)
    ] = None,
    target: Annotated[float | None, typer.Option(help="Success probability to look for.")] = None,
    prior: Annotated[
        tuple[float, float] | None, typer.Option(help="Belief about an unknown task.", metavar="ALPHA BETA")
    ] = None,
    capability: Annotated[
        CapabilityRule | None, typer.Option(help="How the model's place along the references is found.")
    ] = None,
    capability_momentum: Annotated[
        float | None, typer.Option(help="How much each step keeps of what earlier ones say of capability: gamma.")
    ] = None,
    strategy: Annotated[Strategy | None, typer.Option(help="How tasks are chosen.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Of the softmax strategy.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of every draw.")] = None,
    tasks_per_step: Annotated[
        int | None, typer.Option(help="A step closes with so many tasks; 0: with each report.", min=0)
    ] = None,
    reward_range: Annotated[
        tuple[float, float] | None, typer.Option(help="Lowest and highest possible reward.", metavar="LOW HIGH")
    ] = None,
    lease_seconds: Annotated[
        float | None, typer.Option(help="How long a selected task is kept from other selections.")
    ] = None,
) -> None:
    """Hold the options; never called."""


_NONE_AT_0 = ("rollouts_per_task", "tasks_per_step")


def with_settings(command: Callable[P, R]) -> Callable[P, R]:
    """Give a command, in place of its `**settings`, an option for each; it gets those that are given."""
    own = inspect.signature(command)
    kept = [parameter for parameter in own.parameters.values() if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
    options = inspect.signature(_settings).parameters

    @wraps(command)
    def parsed(*args: P.args, **kwargs: P.kwargs) -> R:
        given = {name: value for name, value in kwargs.items() if name not in options or value is not None}
        given |= {name: None for name in _NONE_AT_0 if given.get(name) == 0}
        return command(*args, **given)  # type: ignore[arg-type]  # the same names, fewer of them

    keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in kept]
    parsed.__signature__ = own.replace(parameters=[*keyword_only, *options.values()])  # type: ignore[attr-defined]
    parsed.__annotations__ = {**command.__annotations__, **_settings.__annotations__}
    return parsed


Settings = Any  # what `**settings` holds: names of `bots_client.GivenSettings` with their values
