"""Find the code blocks of a Markdown page and say which of them are run.

```python and ```bash are run in the order of the page. If a reader is to do something else with a block, the page says
so in one of three ways:

    <!-- not run: it needs your PostgreSQL -->              the next block stays out, for this reason
    <!-- another terminal, ready at: http://host:1/x -->    the next block runs until the page's end
    ```python title="train.py"                              the reader saves the block under this name

A ```text block just after a block that is run shows what that prints, with `...` for what differs each time. Blocks of
other languages (json, yaml, console) only show something.
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace

RUN = frozenset({"bash", "python"})
# Blocks that would look like examples and never be run.
REFUSED = {
    "": "text",
    "py": "python",
    "pycon": "python",
    "python3": "python",
    "sh": "bash",
    "shell": "bash",
    "zsh": "bash",
}

_FENCE = re.compile(r'^\s*(?P<marks>`{3,}|~{3,})\s*(?P<language>[\w+-]*)(?:\s+title="(?P<title>[\w.-]+)")?[^`]*$')
_NOTE = re.compile(r"^\s*<!--\s*(?P<kind>not run|another terminal, ready at):\s*(?P<text>\S.*?)\s*-->\s*$")


class PageError(ValueError):
    """A page's blocks can't be told apart, or one would never be run."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block.

    line: the number of the first line of its code in the page, from 1.
    not_run: why it is not run; None where nothing was said.
    ready_at: for a command that runs until the page's end: the URL that answers once it is ready.
    saved_as: the name under which the reader saves it, instead of running it.
    prints: what it prints, with `...` for what differs; None where the page does not say.
    """

    language: str
    code: str
    line: int
    not_run: str | None = None
    ready_at: str | None = None
    saved_as: str | None = None
    prints: str | None = None

    @property
    def runs(self) -> bool:
        """Whether it is an example to be executed, or saved to be executed by a later one."""
        return self.language in RUN and self.not_run is None


def blocks_of(page: str, name: str) -> list[Block]:
    """Return every fenced block of a page, in order.

    Raises:
        PageError: a fence is never closed, a comment concerns nothing, or a language is one of REFUSED.
    """
    lines = page.splitlines()
    found: list[Block] = []
    for block in _blocks(lines, name):
        if block.language == "text" and found and found[-1].runs and not _prose_between(lines, found[-1], block):
            found[-1] = replace(found[-1], prints=block.code)
        else:
            found.append(block)
    return found


def _prose_between(lines: list[str], earlier: Block, later: Block) -> bool:
    closing = earlier.line + earlier.code.count("\n")
    return any(line.strip() for line in lines[closing : later.line - 2])


def _blocks(lines: list[str], name: str) -> Iterator[Block]:
    at, note = 0, None
    while at < len(lines):
        if fence := _FENCE.match(lines[at]):
            end = _closing(lines, at, fence["marks"], name)
            yield _block(fence, lines[at + 1 : end], at + 2, note, name)
            at, note = end, None
        elif found := _NOTE.match(lines[at]):
            note = found
        elif lines[at].strip() and note is not None:
            raise PageError(f"{name}:{at + 1}: a block must follow '{note['kind']}: {note['text']}'")
        at += 1
    if note is not None:
        raise PageError(f"{name}: a block must follow '{note['kind']}: {note['text']}'")


def _closing(lines: list[str], start: int, marks: str, name: str) -> int:
    closing = re.compile(rf"^\s*{re.escape(marks[0])}{{{len(marks)},}}\s*$")
    for at in range(start + 1, len(lines)):
        if closing.match(lines[at]):
            return at
    raise PageError(f"{name}:{start + 1}: this block is never closed")


def _block(fence: re.Match[str], code: list[str], line: int, note: re.Match[str] | None, name: str) -> Block:
    language = fence["language"].lower()
    if language in REFUSED:
        raise PageError(f"{name}:{line - 1}: write ```{REFUSED[language]} instead of ```{language}")
    if note is not None and language not in RUN:
        raise PageError(f"{name}:{line - 1}: ```{language} is never run, so '{note['kind']}' says nothing")
    said = {note["kind"]: note["text"]} if note else {}
    return Block(
        language,
        textwrap.dedent("\n".join(code)) + "\n",
        line,
        not_run=said.get("not run"),
        ready_at=said.get("another terminal, ready at"),
        saved_as=fence["title"],
    )
