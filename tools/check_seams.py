"""Do the tests stay out of what the product keeps private?

A test that reads `_private` names, assigns methods, or reaches through a use case into what it holds breaks whenever
the inside changes, although no promise did. Give a seam instead: an argument of the constructor, a port of the test's
own, a public way to read. Prints each place. Run it as `python -m tools.check_seams` in the repository's root.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

TESTS = Path("tests")
OWN = ("self", "cls", "os")  # os._exit is a function of the standard library for everybody

# Other people's packages have private parts too, and no public way to what these tests check of them.
FOREIGN = {"tests/trainers": "the trainers' own internals, which our adapters must fit"}

# Places of 22 November 2026 in files that have some: a file may have fewer, never more.
KNOWN: dict[str, int] = {
    "tests/api/test_overload.py": 2,
    "tests/client/resilience/test_away.py": 1,
    "tests/client/resilience/test_registration.py": 1,
    "tests/client/resilience/test_strange_worlds.py": 2,
    "tests/client/resilience/test_uniform.py": 1,
    "tests/storage/test_rates.py": 1,
    "tests/storage/test_redis_faults.py": 2,
    "tests/usecases/test_backups_refused.py": 1,
    "tests/usecases/test_interruptions.py": 1,
    "tests/usecases/test_observing.py": 1,
    "tests/usecases/test_pruning.py": 1,
}


def places_in(source: str, name: str) -> Iterator[str]:
    """Yield a line for each place of a test file that reaches into private parts.

    Args:
        source: the text of the file.
        name: its path, for the messages.
    """
    for node in ast.walk(ast.parse(source, name)):
        if isinstance(node, ast.Attribute) and is_private(node):
            yield f"{name}:{node.lineno}: reads {ast.unparse(node)}"
        elif isinstance(node, ast.Attribute) and is_through_a_use_case(node):
            yield f"{name}:{node.lineno}: reaches through a use case: {ast.unparse(node)}"
    for number, line in enumerate(source.splitlines(), 1):
        if "type: ignore[method-assign]" in line:
            yield f"{name}:{number}: assigns a method"


def is_private(node: ast.Attribute) -> bool:
    """Say whether an attribute is private, and of another object."""
    own = isinstance(node.value, ast.Name) and node.value.id in OWN
    base = isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "super"
    return node.attr.startswith("_") and not node.attr.startswith("__") and not own and not base


def is_through_a_use_case(node: ast.Attribute) -> bool:
    """Say whether an attribute is `use.verb.part.anything`."""
    chain = ast.unparse(node).split(".")
    return "use" in chain and len(chain) - chain.index("use") == 4


def places_under(root: Path) -> dict[str, list[str]]:
    """Return the places by file, in a checkout of the repository."""
    found = {}
    for path in sorted((root / TESTS).rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if not name.startswith(tuple(FOREIGN)):
            found[name] = list(places_in(path.read_text(encoding="utf-8"), name))
    return {name: places for name, places in found.items() if places}


def main() -> int:
    """Print the files with more places than are known, and those with fewer; return 1 if there is one."""
    found = places_under(Path.cwd())
    wrong = False
    for name in sorted({*found, *KNOWN}):
        places, known = found.get(name, []), KNOWN.get(name, 0)
        if len(places) > known:
            print(*places, f"{name}: {len(places)} places, at most {known}: give the test a seam", sep="\n")
        elif len(places) < known:
            print(f"{name}: {len(places)} places: lower its number in tools/check_seams.py from {known}")
        wrong = wrong or len(places) != known
    print(f"Seams: {sum(map(len, found.values()))} places where tests reach into private parts")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
