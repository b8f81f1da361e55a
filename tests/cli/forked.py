"""Commands in processes that have the command line's modules already: loading them takes longer than most commands.

One process loads them once, and forks for each command. tests/cli/test_cli_terminal.py and test_cli_service.py start
whole processes, as a person does.
"""

import multiprocessing
import os
import runpy
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

COMMAND_S = 60.0
LOADED = ["bots_client", "bots_service.cli.app", "pyarrow.csv", "pyarrow.parquet", "rich.console", "rich.progress"]
STREAMS = ("stdin", "stdout", "stderr")

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__, *LOADED])


def run(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], stdin: str = ""
) -> tuple[int, str, str]:
    """Run `bots` with these arguments; return its exit code, and what it wrote to stdout and to stderr.

    Raises:
        TimeoutError: it took longer than COMMAND_S.
    """
    with TemporaryDirectory() as streams:
        files = [Path(streams, name) for name in STREAMS]
        files[0].write_text(stdin, "utf-8")
        process = _context.Process(target=_command, args=(list(arguments), folder, dict(environment), files))
        process.start()
        process.join(COMMAND_S)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise TimeoutError(f"bots {' '.join(arguments)} took longer than {COMMAND_S:.0f} s")
        return process.exitcode, files[1].read_text("utf-8"), files[2].read_text("utf-8")


def _command(arguments: list[str], folder: Path, environment: dict[str, str], files: list[Path]) -> None:
    """Become the command, as if the process had been started for it."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    for number, (name, file) in enumerate(zip(STREAMS, files, strict=True)):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT
        os.dup2(os.open(file, flags, 0o600), number)
        setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))
    sys.argv[1:] = arguments
    runpy.run_module("bots_service", run_name="__main__", alter_sys=True)
