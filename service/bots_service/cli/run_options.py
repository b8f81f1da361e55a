"""The settings of a run as options of a command."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, ParamSpec, TypeVar

import typer

from bots_service.core.run_settings import CapabilityRule, StrategyName

P = ParamSpec("P")
R = TypeVar("R")


TasksPerStep = Annotated[
    int | None, typer.Option(help="Close a step after this many reported tasks; 0: after each report.", min=0)
]
LeaseSeconds = Annotated[
    float | None,
    typer.Option(help="Lease in seconds: a selected task is not selected again until it expires or is reported."),
]
MixOption = Annotated[
    list[str] | None,
    typer.Option(
        help='Weight of a tag; repeat for each. "none" ends the mix.',
        metavar="TAG=WEIGHT",
    ),
]
Forgetting = Annotated[
    float | None, typer.Option(help="With bots: share of past evidence that each step drops (lambda).")
]


def _settings(
    *,
    belief: Annotated[str | None, typer.Option(help="Kind of belief: tracker (default) or bots.")] = None,
    forgetting: Forgetting = None,
    implicit_weight: Annotated[
        float | None, typer.Option(help="With bots: weight of evidence implied by other tasks (rho).")
    ] = None,
    rollouts_per_task: Annotated[
        float | None,
        typer.Option(help="Rollouts m that one implied observation counts for; 0: learned from reports.", min=0),
    ] = None,
    target: Annotated[float | None, typer.Option(help="Target success rate.")] = None,
    prior: Annotated[
        tuple[float, float] | None, typer.Option(help="With bots: prior of every task.", metavar="ALPHA BETA")
    ] = None,
    capability: Annotated[
        CapabilityRule | None, typer.Option(help="With bots: how the capability is estimated.")
    ] = None,
    capability_momentum: Annotated[
        float | None, typer.Option(help="With bots: momentum of the capability (gamma).")
    ] = None,
    strategy: Annotated[
        StrategyName | None, typer.Option(help="Strategy; default: pass, or thompson with bots.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed.")] = None,
    tasks_per_step: TasksPerStep = None,
    reward_range: Annotated[
        tuple[float, float] | None, typer.Option(help="Lowest and highest possible reward.", metavar="LOW HIGH")
    ] = None,
    lease_seconds: LeaseSeconds = None,
    mix: MixOption = None,
) -> None:
    """Declare one option per setting; never called."""


NONE_AT_0 = ("rollouts_per_task", "tasks_per_step")


def with_settings(command: Callable[P, R]) -> Callable[P, R]:
    """Replace a command's `**settings` with one option per setting; the command receives the options that are given."""
    own = inspect.signature(command)
    kept = [parameter for parameter in own.parameters.values() if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
    options = inspect.signature(_settings).parameters

    @wraps(command)
    def parsed(*args: P.args, **kwargs: P.kwargs) -> R:
        given = {name: value for name, value in kwargs.items() if name not in options or value is not None}
        given |= {name: None for name in NONE_AT_0 if given.get(name) == 0}
        if "mix" in given:
            given["mix"] = mix_of(given["mix"])  # type: ignore[arg-type]  # as declared above
        return command(*args, **given)  # type: ignore[arg-type]  # the same names, fewer of them

    keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in kept]
    parsed.__signature__ = own.replace(parameters=[*keyword_only, *options.values()])  # type: ignore[attr-defined]
    parsed.__annotations__ = {**command.__annotations__, **_settings.__annotations__}
    return parsed


def mix_of(options: list[str]) -> dict[str, float]:
    """Return the mix that options such as "math=3" describe; "none" is an empty one."""
    if options == ["none"]:
        return {}
    mix: dict[str, float] = {}
    for option in options:
        tag, _, weight = option.rpartition("=")
        try:
            mix[tag] = float(weight)
        except ValueError:
            tag = ""
        if not tag:
            raise typer.BadParameter(f"{option!r} is not like math=3", param_hint="--mix")
    return mix


Settings = Any  # what `**settings` holds: names of `bots_client.GivenSettings` with their values
