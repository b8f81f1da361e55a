"""Find the code blocks of a Markdown page and say which of them are run.

```python and ```bash are run in the order of the page. A block stays out by a comment just before it that says why:

    <!-- not run: it serves until you stop it -->
    ```bash
    make serve
    ```

Blocks of other languages (json, text, console) only show something.
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

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

_FENCE = re.compile(r"^\s*(?P<marks>`{3,}|~{3,})\s*(?P<language>[\w+-]*)[^`]*$")
_NOT_RUN = re.compile(r"^\s*<!--\s*not run:\s*(?P<reason>\S.*?)\s*-->\s*$")


class PageError(ValueError):
    """A page's blocks can't be told apart, or one would never be run."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block.

    line: the number of the first line of its code in the page, from 1.
    not_run: why it is not run; None where nothing was said.
    """

    language: str
    code: str
    line: int
    not_run: str | None = None

    @property
    def runs(self) -> bool:
        """Whether it is an example to be executed."""
        return self.language in RUN and self.not_run is None


def blocks_of(page: str, name: str) -> list[Block]:
    """Return every fenced block of a page, in order.

    Args:
        page: Markdown.
        name: the page's name, for the messages.

    Raises:
        PageError: a fence is never closed, a comment excuses nothing, or a language is one of REFUSED.
    """
    return list(_blocks(page.splitlines(), name))


def _blocks(lines: list[str], name: str) -> Iterator[Block]:
    at, reason = 0, None
    while at < len(lines):
        if fence := _FENCE.match(lines[at]):
            end = _closing(lines, at, fence["marks"], name)
            yield _block(fence["language"].lower(), lines[at + 1 : end], at + 2, reason, name)
            at, reason = end, None
        elif excuse := _NOT_RUN.match(lines[at]):
            reason = excuse["reason"]
        elif lines[at].strip() and reason is not None:
            raise PageError(f"{name}:{at + 1}: a block must follow 'not run: {reason}'")
        at += 1
    if reason is not None:
        raise PageError(f"{name}: a block must follow 'not run: {reason}'")


def _closing(lines: list[str], start: int, marks: str, name: str) -> int:
    closing = re.compile(rf"^\s*{re.escape(marks[0])}{{{len(marks)},}}\s*$")
    for at in range(start + 1, len(lines)):
        if closing.match(lines[at]):
            return at
    raise PageError(f"{name}:{start + 1}: this block is never closed")


def _block(language: str, code: list[str], line: int, reason: str | None, name: str) -> Block:
    if language in REFUSED:
        raise PageError(f"{name}:{line - 1}: write ```{REFUSED[language]} instead of ```{language}")
    if reason is not None and language not in RUN:
        raise PageError(f"{name}:{line - 1}: ```{language} is never run, so 'not run' says nothing")
    return Block(language, textwrap.dedent("\n".join(code)) + "\n", line, reason)
