"""Make studies on public data: python -m studies [NAMES...] [--seeds 10] [--quick] [--processes 2] [--json].

Progress and the remaining time go to stderr, tables to stdout. Each finished trial is kept as a line of JSON in
build/studies; a stopped run continues there, as long as no file of the repository changed.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.machine import commit
from bots_service.demo.replay import ended_by_signals
from studies.catalogue import STUDIES
from studies.results import Result, Trial, in_order, planned, read_results
from studies.tables import all_tables

SEEDS, PROCESSES = 10, 2
OUTPUT = Path("build/studies")
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # each process has one core


def main() -> None:
    """Make what the command line asks for, and print tables, or the results as JSON."""
    options = read_options()
    studies = [STUDIES[name] for name in options.names or STUDIES]
    trials = planned(studies, seeds=1 if options.quick else options.seeds)
    path = result_path(options.output, quick=options.quick)
    with ended_by_signals():
        results = list(finished(trials, path, quick=options.quick, processes=options.processes))
    found = in_order(results, studies)
    if options.json:
        sys.stdout.writelines(result.line() for result in found)
    else:
        print("\n\n".join(all_tables(study, found) for study in studies))


def read_options() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m studies", description="Studies on public data.")
    # argparse would compare the whole list with `choices` where it is empty.
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these: {', '.join(STUDIES)}")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"trials of each cell ({SEEDS})")
    parser.add_argument("--quick", action="store_true", help="one seed, few steps: does it run")
    parser.add_argument("--processes", type=int, default=PROCESSES, help=f"side by side ({PROCESSES})")
    parser.add_argument("--output", type=Path, default=OUTPUT, help=f"where finished trials are kept ({OUTPUT})")
    parser.add_argument("--json", action="store_true", help="print each trial as a line of JSON, and no table")
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - set(STUDIES)):
        parser.error(f"no study {', '.join(unknown)}; there are {', '.join(STUDIES)}")
    return options


def result_path(folder: Path, *, quick: bool) -> Path:
    """Return the file of this commit's results; where files differ from the commit, an empty one."""
    name, is_changed = commit()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}{'-changed' if is_changed else ''}{'-quick' if quick else ''}.ndjson"
    if is_changed:
        path.unlink(missing_ok=True)  # nobody knows of what those results are
    return path


def finished(trials: list[Trial], path: Path, *, quick: bool, processes: int) -> Iterator[Result]:
    """Yield the result of each trial: first those that the file has, then the others, each kept there at once."""
    known = {result.key: result for result in read_results([path] if path.exists() else [])}
    kept = [known[trial.key] for trial in trials if trial.key in known]
    yield from kept
    left = [trial for trial in trials if trial.key not in known]
    path.write_text("".join(result.line() for result in known.values()), "utf-8")  # without an unfinished last line
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("trials"))
    times = (TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn(elapsed_when_finished=True))
    progress = Progress(*columns, *times, console=Console(stderr=True))
    with path.open("a", encoding="utf-8") as file, progress:
        bar = progress.add_task("studies", total=len(trials), completed=len(kept))
        for result in made(left, quick=quick, processes=processes):
            file.write(result.line())
            file.flush()
            progress.update(bar, advance=1, description=result.study)
            yield result


def made(trials: list[Trial], *, quick: bool, processes: int) -> Iterator[Result]:
    """Yield the result of each trial, in any order."""
    if processes == 1:
        yield from (trial.made(quick=quick) for trial in trials)
        return
    with one_thread_each(), ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(Trial.made, trial, quick=quick) for trial in trials]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Have processes that start meanwhile compute with one thread each."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


if __name__ == "__main__":
    main()
