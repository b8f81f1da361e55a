"""Lifetimes are defined in one module, and fit together."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bots_service import retention
from bots_service.core.run_settings import RunSettings

SERVICE = Path(retention.__file__).parent
LONGEST_TIMEOUT_S = 120.0  # whatever lasts longer is kept, not waited for
NAMES = re.compile(r"((?<!PER)_S|_s|_seconds|_DAYS|_days)$")
LUA_LIFETIMES = re.compile(r"'(P?EXPIRE(AT)?)'[^)]*,\s*\d+\s*\)|'(EX|PX)',\s*\d")


def numbers(node: ast.expr | None) -> Iterator[float]:
    """Yield the value of an expression that is made of numbers only."""
    if node is None:
        return
    is_plain = all(
        isinstance(part, ast.Constant | ast.BinOp | ast.UnaryOp | ast.operator | ast.unaryop) for part in ast.walk(node)
    )
    if is_plain and not any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in ast.walk(node)):
        value = eval(compile(ast.Expression(node), "", "eval"))  # noqa: S307 - numbers only
        if isinstance(value, int | float):
            yield value


def named_numbers(source: str) -> Iterator[tuple[str, float]]:
    """Yield each constant, field and parameter that has a number of seconds or days for a value.

    Arguments of calls are left out: the API's examples have lifetimes, too.
    """
    for node in ast.walk(ast.parse(source)):
        pairs: list[tuple[str, ast.expr | None]] = []
        if isinstance(node, ast.Assign):
            pairs = [(name.id, node.value) for name in node.targets if isinstance(name, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            pairs = [(node.target.id, node.value)]
        elif isinstance(node, ast.arguments):
            named = [
                *zip(node.args[::-1], node.defaults[::-1], strict=False),
                *zip(node.kwonlyargs, node.kw_defaults, strict=True),
            ]
            pairs = [(argument.arg, default) for argument, default in named]
        yield from ((name, value) for name, expression in pairs if NAMES.search(name) for value in numbers(expression))


def lifetimes(source: str) -> list[tuple[str, float]]:
    return [
        (name, value)
        for name, value in named_numbers(source)
        if value > (LONGEST_TIMEOUT_S if not name.lower().endswith("_days") else 0)
    ]


def test_no_other_module_defines_a_lifetime():
    files = [file for file in SERVICE.rglob("*.py") if file != Path(retention.__file__)]
    found = {str(file.relative_to(SERVICE)): lifetimes(file.read_text()) for file in files}
    assert {file: names for file, names in found.items() if names} == {}


def test_no_lua_script_defines_a_lifetime():
    found = [file.name for file in SERVICE.rglob("*.lua") if LUA_LIFETIMES.search(file.read_text())]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "KEEP_S = 7 * 24 * 3600.0",
        "class A:\n    lease_seconds: float = 3600.0",
        "def f(*, kept_s: float = 900): ...",
        "keep_days = 2",
    ],
)
def test_a_lifetime_elsewhere_would_be_found(source: str):
    assert len(lifetimes(source)) == 1
    assert LUA_LIFETIMES.search("redis.call('EXPIRE', HEADER, 86400)")
    assert LUA_LIFETIMES.search("redis.call('SET', KEYS[1], '1', 'EX', 60)")


def test_what_others_rest_on_is_kept_longer():
    """Redis must not drop a run whose leases still count, nor a kept selection before its nonce counts for nothing."""
    assert retention.IDLE_RUNS_S > retention.LONGEST_LEASE_S + retention.SELECTIONS_S
    assert retention.NONCES_S <= retention.SELECTIONS_S
    assert retention.LEASE_S <= retention.LONGEST_LEASE_S
    assert RunSettings().lease_seconds == retention.LEASE_S
