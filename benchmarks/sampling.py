"""What a running process does, by samples of py-spy, which looks into it from outside and changes nothing there."""

import asyncio
import re
import signal
import sysconfig
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.parts import Stack

PER_SECOND = 200
STARTS_WITHIN_S = 60.0
ENDS_WITHIN_S = 60.0
SPY = Path(sysconfig.get_path("scripts")) / "py-spy"
FRAME = re.compile(r"(?P<function>.*) \((?P<file>[^()]*)\)$")


@dataclass(slots=True)
class Samples:
    """Stacks of threads that ran Python, with how often each was seen. problem: why there are none, in words."""

    stacks: list[tuple[Stack, int]] = field(default_factory=list)
    problem: str = ""


@asynccontextmanager
async def sampling(pid: int, samples: Samples) -> AsyncIterator[None]:
    """Sample a process of Python until the end of the block, whatever thread holds its interpreter's lock.

    Where py-spy may not look into processes, as in a container without SYS_PTRACE, there are none, and a problem.

    Args:
        pid: the process.
        samples: they are there after the block.
    """
    with tempfile.TemporaryDirectory(prefix="bots-bench-") as folder:
        path = Path(folder) / "stacks"
        try:
            spy = await asyncio.create_subprocess_exec(
                SPY,
                *("record", "--pid", str(pid), "--rate", str(PER_SECOND), "--format", "raw", "--gil", "--nolineno"),
                *("--output", str(path)),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
        except OSError as error:
            samples.problem = f"py-spy did not start ({error.strerror})"
            yield
            return
        said = ""
        with suppress(TimeoutError):  # the samples tell
            said = await asyncio.wait_for(_said(spy, until=b"Sampling process"), STARTS_WITHIN_S)
        try:
            yield
        finally:
            said += await _ended(spy)
        if path.exists():
            samples.stacks = [stack_of(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if not samples.stacks:
            samples.problem = "it was not seen to run Python" if spy.returncode == 0 else problem_of(said)


async def _ended(spy: asyncio.subprocess.Process) -> str:
    """Ask py-spy to write what it saw and to end; return what it said meanwhile."""
    if spy.returncode is None:
        spy.send_signal(signal.SIGINT)
    try:
        rest, _ = await asyncio.wait_for(spy.communicate(), ENDS_WITHIN_S)
    except TimeoutError:
        spy.kill()
        await spy.wait()
        return f"Error: py-spy did not end within {ENDS_WITHIN_S:g} s"
    return rest.decode(errors="replace")


async def _said(spy: asyncio.subprocess.Process, *, until: bytes) -> str:
    """Return what py-spy says until it has said this, or ends."""
    assert spy.stdout is not None
    lines = []
    while line := await spy.stdout.readline():
        lines.append(line.decode(errors="replace"))
        if until in line:
            break
    return "".join(lines)


def stack_of(line: str) -> tuple[Stack, int]:
    """Read a line of py-spy's raw form: the functions, outermost first, and how often they were seen."""
    frames, _, count = line.rpartition(" ")
    found = [FRAME.match(frame) for frame in frames.split(";")]
    return [(made["file"], made["function"]) for made in found if made is not None], int(count)


def problem_of(said: str) -> str:
    """Return the first of py-spy's lines that says what failed, without what it advises."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")] or lines[-1:] or ["it said nothing"]
    return errors[0].removeprefix("Error:").strip().rstrip(".")
