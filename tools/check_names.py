"""Does each class of the service have a name of its own?

Two classes of one name can't be found by searching for it, and a reader may take one for the other. Prints each name
that several classes share, with their places. Run it as `python -m tools.check_names` in the repository's root.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

PACKAGE = Path("service/bots_service")


def classes_in(source: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield each class of a Python file, nested ones too, as (class name, "file:line").

    Args:
        source: the text of the file.
        name: its path, for the places.
    """
    for node in ast.walk(ast.parse(source, name)):
        if isinstance(node, ast.ClassDef):
            yield node.name, f"{name}:{node.lineno}"


def duplicates(classes: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the places of each class name that occurs more than once, sorted by name."""
    places = defaultdict(list)
    for name, place in classes:
        places[name].append(place)
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}


def classes_under(root: Path) -> Iterator[tuple[str, str]]:
    """Yield each class of the service in a checkout of the repository."""
    for path in sorted((root / PACKAGE).rglob("*.py")):
        yield from classes_in(path.read_text(encoding="utf-8"), path.relative_to(root).as_posix())


def main() -> int:
    """Print each shared name that is not known yet; return 1 if there is one."""
    shared = duplicates(classes_under(Path.cwd()))
    for name, places in shared.items():
        print(f"class {name} is defined {len(places)} times: {', '.join(places)}: rename all but one")
    print(f"Names: {len(shared)} shared by several classes" if shared else "Names: each class has its own")
    return 1 if shared else 0


if __name__ == "__main__":
    sys.exit(main())
