"""Are files and functions short enough to read in one go, and files long enough to be worth opening?

Prints each that is not, and what to do about it. Run it as `python -m tools.check_sizes` in the repository's root.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Limits:
    """How long things may be, in lines; None: no limit."""

    file: int
    function: int | None
    shortest_file: int | None = None


# Tests and benchmarks are read a case at a time, so only their files are limited. Migrations are not limited: each is a
# list of tables, written once.
LIMITS = {
    "service": Limits(file=400, function=40, shortest_file=40),
    "client": Limits(file=400, function=40, shortest_file=40),
    "tools": Limits(file=400, function=40),
    "tests": Limits(file=400, function=None),
    "benchmarks": Limits(file=400, function=None),
    "examples": Limits(file=400, function=40),
}

# Files that may be shorter than `shortest_file`, each pattern with its reason.
SHORT_FILES = {
    "*/__init__.py": "says what a package is",
    "*/__main__.py": "an entry point",
    "service/bots_service/api/routes/*.py": "a route",
    "service/bots_service/ports/*.py": "a port",
    "service/bots_service/core/belief/protocol.py": "what every kind of belief offers",
    "service/bots_service/doctor/*.py": "one examination of the doctor",
    "client/bots_client/_resilience/flaws.py": "read by whoever debugs a refused report, and by nobody else",
    "client/bots_client/integrations/*.py": "one trainer's adapter, or what several of them share",
    # Of 22 November 2026: to be merged in the redesign.
    "service/bots_service/api/responses.py": "to be merged",
    "service/bots_service/storage/redis/rates.py": "to be merged",
    "client/bots_client/_backup_models.py": "to be merged",
    "client/bots_client/_calls/service_calls.py": "to be merged",
    "client/bots_client/_journal_models.py": "to be merged",
    "client/bots_client/_lease_models.py": "to be merged",
    "client/bots_client/_methods.py": "to be merged",
}


def own_lines(function: FunctionNode) -> int:
    """Count a function's lines, from `def` to its end, without its docstring."""
    first = function.body[0]
    is_docstring = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    docstring = (first.end_lineno or first.lineno) - first.lineno + 1 if is_docstring else 0
    return (function.end_lineno or function.lineno) - function.lineno + 1 - docstring


def may_be_short(name: str) -> bool:
    """Say whether SHORT_FILES has a reason for a file, by its path."""
    return any(fnmatch(name, pattern) for pattern in SHORT_FILES)


def problems_in(source: str, name: str, limits: Limits) -> Iterator[str]:
    """Yield one line for the file if it is too long or too short, and one for each of its functions that is too long.

    Args:
        source: the text of a Python file.
        name: its path, for the messages.
        limits: what holds for it.
    """
    lines = len(source.splitlines())
    if lines > limits.file:
        yield f"{name}: {lines} lines, at most {limits.file}: move one of its subjects to a file of its own"
    if limits.shortest_file is not None and lines < limits.shortest_file and not may_be_short(name):
        yield (
            f"{name}: {lines} lines, at least {limits.shortest_file}: merge it with what is read together with it, "
            "or give a reason in SHORT_FILES of tools/check_sizes.py"
        )
    if limits.function is None:
        return
    for node in ast.walk(ast.parse(source, name)):
        if isinstance(node, FunctionNode) and (size := own_lines(node)) > limits.function:
            yield (
                f"{name}:{node.lineno}: {node.name}() has {size} lines without its docstring, "
                f"at most {limits.function}: give one of its steps a name and a function"
            )


def problems_under(root: Path) -> Iterator[str]:
    """Yield every problem in a checkout of the repository."""
    for folder, limits in LIMITS.items():
        for path in sorted((root / folder).rglob("*.py")):
            yield from problems_in(path.read_text(encoding="utf-8"), path.relative_to(root).as_posix(), limits)


def main() -> int:
    """Print what is too long or too short; return 1 if anything is."""
    problems = list(problems_under(Path.cwd()))
    for problem in problems:
        print(problem)
    print(f"Sizes: {len(problems)} outside their limits" if problems else "Sizes: all within their limits")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
