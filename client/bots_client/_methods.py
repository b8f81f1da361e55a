"""Make methods of described calls, so that every call is written once for both clients."""

import functools
import inspect
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar, get_args

P = ParamSpec("P")
A = TypeVar("A")
C = TypeVar("C")
R = TypeVar("R")


def method(describe: Callable[P, A], act: Callable[[C, A], R]) -> Callable[Concatenate[C, P], R]:
    """Return the method that describes a call by its arguments and acts on it: sends it, goes through its pages, ...

    It has the signature and the documentation of `describe`, for type checkers and for `help`.
    """

    @functools.wraps(describe)
    def described(self: C, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return act(self, describe(*args, **kwargs))

    described.__signature__ = _signature(describe, act)  # type: ignore[attr-defined]
    return described


def _signature(describe: Callable[..., object], act: Callable[..., object]) -> inspect.Signature:
    """Return what is described, with `self` before it, and what the action makes of it (Call[Run] sent is a Run)."""
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    plain, returns = inspect.signature(describe), inspect.signature(act).return_annotation
    of = get_args(plain.return_annotation)
    if isinstance(returns, TypeVar):
        returns = of[0]
    elif getattr(returns, "__parameters__", ()):
        returns = returns[of]
    return plain.replace(parameters=[own, *plain.parameters.values()], return_annotation=returns)
