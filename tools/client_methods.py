"""Write the methods of both clients from the calls that `bots_client._calls` describes, or check them.

    python -m tools.client_methods            writes the two files
    python -m tools.client_methods --check    are they what the calls make?

Each call is described once: signature, documentation, request and answer. An editor completes real methods only, so
this writes a method with the same signature and documentation for `Client` and one for `AsyncClient`. Run it in the
repository's root.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path("client/bots_client")
MODULES = ("dataset_calls", "run_calls", "summary_calls", "step_calls", "admin_calls")


@dataclass(frozen=True, slots=True)
class Kind:
    """How the methods of one client are written; `{}` stands for what the call answers.

    returns: a method's return type, by the return type of its call.
    sends: the expression around a call, by the same.
    coroutines: the return types of calls whose methods are coroutines.
    """

    file: str
    name: str
    base: str
    summary: str
    imports: tuple[str, ...]
    returns: dict[str, str]
    sends: dict[str, str]
    coroutines: frozenset[str] = frozenset()


SENDS = {
    "Call": "self.send({})",
    "Pages": "self._paginate({})",
    "Stream": "self._stream({})",
    "Probe": "self._probe({})",
}
KINDS = (
    Kind(
        file="_client_methods.py",
        name="ClientMethods",
        base="BaseClient",
        summary="Every call of the service as a method that waits for the answer.",
        imports=("from collections.abc import Generator", "from bots_client._tables import Listing"),
        returns={
            "Call": "{}",
            "Pages": "Listing[{}]",
            "Stream": "Generator[bytes, None, None]",
            "Probe": "bool",
        },
        sends=SENDS,
    ),
    Kind(
        file="_async_client_methods.py",
        name="AsyncClientMethods",
        base="BaseAsyncClient",
        summary="Every call of the service as a method to await; lists and streams are read with `async for`.",
        imports=("from collections.abc import AsyncGenerator", "from bots_client._tables import AsyncListing"),
        returns={
            "Call": "{}",
            "Pages": "AsyncListing[{}]",
            "Stream": "AsyncGenerator[bytes, None]",
            "Probe": "bool",
        },
        sends={**SENDS, "Call": "await self.send({})", "Probe": "await self._probe({})"},
        coroutines=frozenset({"Call", "Probe"}),
    ),
)


class Module:
    """One module of described calls, as its source has it."""

    def __init__(self, name: str) -> None:
        self.name = name
        tree = ast.parse((PACKAGE / "_calls" / f"{name}.py").read_text("utf-8"))
        self.constants = {
            ast.unparse(node.targets[0]): node.value for node in tree.body if isinstance(node, ast.Assign)
        }
        self.origins = {
            alias.name: f"from {node.module} import {alias.name}" if isinstance(node, ast.ImportFrom) else "import os"
            for node in tree.body
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        self.calls = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name[0] != "_"]


def methods(module: Module, kind: Kind) -> Iterator[str]:
    """Yield the source of each method."""
    for call in module.calls:
        returns, answer = _returned(call)
        arguments = _signature(call, module)
        prefix = "async def" if returns in kind.coroutines else "def"
        returned = kind.returns[returns].format(answer)
        passed = kind.sends[returns].format(f"{module.name}.{call.name}({_passed(call)})")
        doc = ast.get_docstring(call, clean=False)
        lines = (line and f"    {line}" for line in (doc or "").split("\n"))
        yield (
            f"    {prefix} {call.name}(\n        {arguments}\n    ) -> {returned}:\n"
            f'        """{chr(10).join(lines).lstrip()}"""\n        return {passed}\n'
        )


def _returned(call: ast.FunctionDef) -> tuple[str, str]:
    """Return the kind of call, and what it answers."""
    if isinstance(call.returns, ast.Subscript):
        return ast.unparse(call.returns.value), ast.unparse(call.returns.slice)
    return ast.unparse(call.returns) if call.returns else "", ""


def _signature(call: ast.FunctionDef, module: Module) -> str:
    """Return the parameters of a method, with the values of constants in their place."""
    arguments = ast.parse(ast.unparse(call)).body[0]
    assert isinstance(arguments, ast.FunctionDef)  # noqa: S101 - for the type checker
    for defaults in (arguments.args.defaults, arguments.args.kw_defaults):
        for place, default in enumerate(defaults):
            name = ast.unparse(default) if default else ""
            if name in module.constants:
                defaults[place] = module.constants[name]
            elif name == "PAGE":
                defaults[place] = ast.Constant(100)
    arguments.args.args.insert(0, ast.arg("self"))
    return ast.unparse(arguments.args)


def _passed(call: ast.FunctionDef) -> str:
    """Return the arguments that a method hands to its call."""
    plain = [argument.arg for argument in call.args.args]
    named = [f"{argument.arg}={argument.arg}" for argument in call.args.kwonlyargs]
    rest = [f"**{call.args.kwarg.arg}"] if call.args.kwarg else []
    return ", ".join((*plain, *named, *rest))


def _names(node: ast.AST) -> Iterator[str]:
    """Yield the names that annotations use, also inside strings."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            yield inner.id
        elif isinstance(inner, ast.Constant) and isinstance(inner.value, str) and "[" in inner.value:
            yield from _names(ast.parse(inner.value, mode="eval"))


def _imports(modules: list[Module], kind: Kind) -> Iterator[str]:
    """Yield the imports of what the signatures name."""
    yield from kind.imports
    yield f"from bots_client._base_client import {kind.base}"
    for module in modules:
        yield f"from bots_client._calls import {module.name}"
        for call in module.calls:
            annotations = [argument.annotation for argument in (*call.args.args, *call.args.kwonlyargs)]
            answer = call.returns.slice if isinstance(call.returns, ast.Subscript) else None
            rest = call.args.kwarg.annotation if call.args.kwarg else None
            for node in (*annotations, answer, rest):
                for name in _names(node) if node else ():
                    if name in module.origins:
                        yield module.origins[name]


def written(kind: Kind) -> str:
    """Return the source of one client's methods."""
    modules = [Module(name) for name in MODULES]
    body = "\n".join(method for module in modules for method in methods(module, kind))
    source = (
        f'"""{kind.summary}\n\nGenerated by `python -m tools.client_methods` from `_calls`: edit the calls."""\n\n'
        + "\n".join(sorted(set(_imports(modules, kind))))
        + f'\n\n\nclass {kind.name}({kind.base}):\n    """{kind.summary}"""\n\n{body}'
    )
    for command in (("check", "--fix", "--quiet", "--select", "I,D"), ("format",)):
        arguments = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(PACKAGE / kind.file), "-"]
        source = subprocess.run(arguments, input=source, capture_output=True, text=True, check=True).stdout  # noqa: S603
    return source


def main(*arguments: str) -> int:
    """Do as the arguments say; return 1 if the check found something."""
    if arguments not in ((), ("--check",)):
        print(f"unknown arguments: {' '.join(arguments)}")
        return 2
    stale = [kind for kind in KINDS if _kept(kind) != written(kind)]
    if not arguments:
        for kind in stale:
            (PACKAGE / kind.file).write_text(written(kind), "utf-8")
        print(f"Wrote {len(stale)} of {len(KINDS)} files")
        return 0
    for kind in stale:
        print(f"{PACKAGE / kind.file} is not what the calls make; write it: python -m tools.client_methods")
    if not stale:
        print("Client: the methods are up to date")
    return int(bool(stale))


def _kept(kind: Kind) -> str:
    file = PACKAGE / kind.file
    return file.read_text("utf-8") if file.exists() else ""


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
