"""Are files and functions short enough to read in one go?

Prints each that is not, and what to do about it. Run it as `python -m tools.check_sizes` in the repository's root.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Limits:
    """How long things may be, in lines; None: as long as they like."""

    file: int
    function: int | None


# Tests and benchmarks are read a case at a time, so only their files are limited. Migrations are not limited: each is a
# list of tables, written once.
LIMITS = {
    "service": Limits(file=400, function=40),
    "client": Limits(file=400, function=40),
    "tools": Limits(file=400, function=40),
    "tests": Limits(file=400, function=None),
    "benchmarks": Limits(file=400, function=None),
    "examples": Limits(file=400, function=40),
}


def own_lines(function: FunctionNode) -> int:
    """Count a function's lines, from `def` to its end, without its docstring."""
    first = function.body[0]
    is_docstring = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    docstring = (first.end_lineno or first.lineno) - first.lineno + 1 if is_docstring else 0
    return (function.end_lineno or function.lineno) - function.lineno + 1 - docstring


def problems_in(source: str, name: str, limits: Limits) -> Iterator[str]:
    """Yield one line for the file if it is too long, and one for each of its functions that is.

    Args:
        source: the text of a Python file.
        name: its path, for the messages.
        limits: what holds for it.
    """
    lines = len(source.splitlines())
    if lines > limits.file:
        yield f"{name}: {lines} lines, at most {limits.file}: move one of its subjects to a file of its own"
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
    """Print what is too long; return 1 if anything is."""
    problems = list(problems_under(Path.cwd()))
    for problem in problems:
        print(problem)
    print(f"Sizes: {len(problems)} too long" if problems else "Sizes: all within their limits")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
