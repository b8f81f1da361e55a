"""The client installs with httpx alone, so it may import httpx, itself and the standard library: nothing else.

What plugs it into a trainer imports that trainer too; nothing else of the client imports these.
"""

import ast
import sys
from pathlib import Path

import pytest

CLIENT = Path(__file__).parents[2] / "client" / "bots_client"
ALLOWED = sys.stdlib_module_names | {"bots_client", "httpx"}
EXTRAS = {"_tables.py": {"pandas"}}  # imported when a table is asked for, which the package's extra brings


def imported_by(source: str) -> set[str]:
    """Return the top-level packages that a file imports when it runs, wherever in it the import stands."""
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if not is_for_type_checkers(node)]
    nodes = list(ast.walk(tree))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    from_ = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    return {name.partition(".")[0] for name in plain | from_}


def is_for_type_checkers(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


INTEGRATIONS = CLIENT / "integrations"
OWN = [path for path in sorted(CLIENT.rglob("*.py")) if INTEGRATIONS not in path.parents]


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.relative_to(CLIENT).as_posix())
def test_the_client_imports_only_what_it_declares(path):
    assert imported_by(path.read_text("utf-8")) <= ALLOWED | EXTRAS.get(path.name, set())


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.relative_to(CLIENT).as_posix())
def test_what_needs_a_trainer_is_not_imported_by_the_rest(path):
    assert "bots_client.integrations" not in path.read_text("utf-8")
