"""The page's modules as one file: browsers ask for one at a time, and each takes a way to the service and back.

A bundle holds a module and all that it imports, each in a function of its own that returns what it exports.
"""

import re
from collections.abc import Callable

NAMES = re.compile(r'^import (\{[^}]*\}) from "\./([\w.-]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?function\*?|class|const) (\w+)", re.MULTILINE)
EXPORTED = re.compile(r"^export \{([^}]*)\};\n", re.MULTILINE)

Read = Callable[[str], str]


def bundle(root: str, read: Read) -> str:
    """Return a module and all that it imports as one module: it exports what the first does, and each by its variable.

    Args:
        root: the module's file name.
        read: returns the text of a file.

    Raises:
        ValueError: modules import each other in a circle, or in a way that is not provided for.
    """
    modules = modules_of(root, read)
    given = f"export {{ {', '.join(map(variable, modules))} }};\n"
    given += f"export const {{ {', '.join(_exports(read(root)))} }} = {variable(root)};\n"
    return "".join(_as_function(name, read(name)) for name in modules) + given


def modules_of(root: str, read: Read) -> list[str]:
    """Return a module and all that it imports, each after those that it needs."""
    found: list[str] = []

    def add(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise ValueError(f"modules import each other in a circle: {' > '.join((*above, name))}")
        for needed in imports_of(name, read):
            add(needed, (*above, name))
        if name not in found:
            found.append(name)

    add(root, ())
    return found


def imports_of(name: str, read: Read) -> list[str]:
    """Return the modules that a module imports, in the order of its lines."""
    return [module for _, module in NAMES.findall(read(name))]


def variable(name: str) -> str:
    """Return the variable that holds what a module exports."""
    return re.sub(r"\W", "_", name)


def _exports(text: str) -> list[str]:
    listed = [name.strip() for names in EXPORTED.findall(text) for name in names.split(",")]
    return [name for _, name in EXPORT.findall(text)] + listed


def _as_function(name: str, text: str) -> str:
    declared = EXPORTED.sub("", EXPORT.sub(r"\1 \2", text))
    body = NAMES.sub(_as_constants, declared)
    left = re.search(r"^(?:import|export)\b(?!\().*", body, re.MULTILINE)
    if left:
        raise ValueError(f"{name} imports or exports in a way that is not provided for: {left.group()}")
    return f"const {variable(name)} = (() => {{\n{body}return {{ {', '.join(_exports(text))} }};\n}})();\n"


def _as_constants(found: re.Match[str]) -> str:
    names, module = found.groups()
    return f"const {names.replace(' as ', ': ')} = {variable(module)};\n"
