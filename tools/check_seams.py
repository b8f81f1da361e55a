"""Do the tests stay out of what the product keeps private?

A test that reads, imports or replaces `_private` names, assigns methods, or reaches through a use case into what it
holds breaks whenever the inside changes, although no promise did. Give a seam instead: an argument of the constructor,
a port of the test's own, a public way to read. A private module (`bots_client._retry`) may be tested like any other:
only its package is the users'. Prints each place. Run it as `python -m tools.check_seams` in the repository's root.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

TESTS = Path("tests")
OWN = ("self", "cls", "os")  # os._exit is a function of the standard library for everybody

# Other people's packages have private parts too, and no public way to what these tests check of them.
FOREIGN = {"tests/trainers": "the trainers' own internals, which our adapters must fit"}


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
        elif isinstance(node, ast.Call) and is_by_a_private_name(node):
            yield f"{name}:{node.lineno}: names a private part: {ast.unparse(node)}"
        elif isinstance(node, ast.ImportFrom) and any(map(is_private_name, (part.name for part in node.names))):
            yield f"{name}:{node.lineno}: imports a private part: {ast.unparse(node)}"
    for number, line in enumerate(source.splitlines(), 1):
        if "type: ignore[method-assign]" in line:
            yield f"{name}:{number}: assigns a method"


def is_private(node: ast.Attribute) -> bool:
    """Say whether an attribute is private, and of another object."""
    own = isinstance(node.value, ast.Name) and node.value.id in OWN
    base = isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id == "super"
    return is_private_name(node.attr) and not own and not base


def is_private_name(name: str) -> bool:
    """Say whether a name, or the last part of a dotted one, is private."""
    last = name.rpartition(".")[2]
    return last.startswith("_") and not last.startswith("__")


def is_by_a_private_name(node: ast.Call) -> bool:
    """Say whether a call, such as `monkeypatch.setattr(job, "_clock", clock)`, names a private attribute as a text."""
    if ast.unparse(node.func).rpartition(".")[2] not in ("getattr", "setattr", "delattr"):
        return False
    texts = [part.value for part in node.args[:2] if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return any(map(is_private_name, texts))


def is_through_a_use_case(node: ast.Attribute) -> bool:
    """Say whether an attribute is `use.verb.part.anything`."""
    chain = ast.unparse(node).split(".")
    return "use" in chain and len(chain) - chain.index("use") == 4


def places_under(root: Path) -> list[str]:
    """Return the places in the tests of a checkout of the repository."""
    found: list[str] = []
    for path in sorted((root / TESTS).rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if not name.startswith(tuple(FOREIGN)):
            found += places_in(path.read_text(encoding="utf-8"), name)
    return found


def main() -> int:
    """Print the places; return 1 if there is one."""
    places = places_under(Path.cwd())
    print(*places, f"Seams: {len(places)} places where tests reach into private parts", sep="\n")
    return 1 if places else 0


if __name__ == "__main__":
    sys.exit(main())
