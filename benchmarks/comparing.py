"""How long a comparison of beliefs takes, and what it says of one model under several ways to select.

    python -m benchmarks.comparing [--steps 1000] [--batch 32]

The model is the recorded run of the demo: success rates of 678 problems over a real GRPO run, with two references. Who
selects decides which outcomes there are, so the same beliefs are compared on the journals of three runs. Each is also
checked: every candidate's errors must be those of a replay under it alone.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from time import process_time

import numpy as np
from rich.console import Console

from benchmarks.pools import drawn
from bots_service.cli.output import table
from bots_service.core.arrays import frozen
from bots_service.core.comparison.candidates import Candidate, candidates_for, view
from bots_service.core.comparison.refold import collected, refolded
from bots_service.core.comparison.verdict import Comparison, compared
from bots_service.core.draw.selection import SelectRequest
from bots_service.core.entries import Entry, Report
from bots_service.core.evidence import Evidence
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings
from bots_service.core.state import advance, fresh_state
from bots_service.demo.recording import STEPS, Recording, recorded_run

ROLLOUTS = 16
RUNS = {
    "BOTS, uniform": RunSettings(belief="bots", strategy="uniform"),
    "BOTS, thompson": RunSettings(belief="bots", strategy="thompson"),
    "tracker, uniform": RunSettings(belief="tracker", strategy="uniform"),
    "tracker, pass": RunSettings(belief="tracker", strategy="pass"),
    "tracker, thompson": RunSettings(belief="tracker", strategy="thompson"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """The comparison of one run. seconds: of processor time, for all candidates together."""

    run: str
    candidates: int
    seconds: float
    comparison: Comparison

    @property
    def seconds_a_belief(self) -> float:
        """How long one belief takes, on average."""
        return self.seconds / self.candidates

    def log_loss(self, name: str) -> float:
        """Return the log loss of a candidate."""
        return next(each.log_loss for each in self.comparison.scores if each.candidate.name == name)


def measure(steps: int, batch: int) -> Iterator[Row]:
    """Yield a row for each run, its comparison checked."""
    recording = recorded_run().with_both_references()
    pool = pool_of(recording)
    for name, settings in RUNS.items():
        entries = journal(recording, pool, settings, steps=steps, batch=batch)
        candidates = candidates_for(settings, pool)
        began = process_time()
        scores = collected(refolded(fresh_state(settings, pool), entries, candidates, pool), len(candidates))
        comparison = compared(candidates, scores)
        seconds = process_time() - began
        for place, candidate in enumerate(candidates):
            assert scores.log_loss[:, place].tolist() == replayed(candidate, pool, entries), candidate.name
        yield Row(name, len(candidates), seconds, comparison)


def pool_of(recording: Recording) -> Pool:
    """Return the recording's problems as a pool."""
    return Pool.of_tasks(np.array([task.reference_pass_rates for task in recording.tasks()], np.float64))


def journal(recording: Recording, pool: Pool, settings: RunSettings, *, steps: int, batch: int) -> list[Entry]:
    """Return the journal of a run that selects and reports so many steps, spread over the recorded ones."""
    rng, state, entries = np.random.default_rng(7), fresh_state(settings, pool), list[Entry]()
    for step in range(steps):
        request = SelectRequest("recorded", batch)
        tasks = np.sort(drawn(state, pool, request, rng))
        solved = recording.roll_out(step * STEPS // steps, rollouts=ROLLOUTS, seed=step)[tasks].astype(np.float64)
        evidence = Evidence(
            frozen(tasks), frozen(solved), frozen(ROLLOUTS - solved), frozen((solved > 0) & (solved < ROLLOUTS))
        )
        entries.append(Entry(state.seq + 1, 0, pool.profiles, Report(evidence, None, None)))
        state, _ = advance(state, entries[-1], pool)
    return entries


def replayed(candidate: Candidate, pool: Pool, entries: list[Entry]) -> list[float | None]:
    """Return the log loss of each step under one candidate alone."""
    seen = view(pool, candidate)
    state, losses = fresh_state(candidate.settings, seen.pool), []
    for entry in entries:
        alone = Entry(entry.seq, 0, seen.profiles(entry.profiles), entry.body)
        state, receipt = advance(state, alone, seen.pool)
        losses.append(receipt.log_loss)
    return losses


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=32)
    options = parser.parse_args()
    console = Console(width=200)
    rows = []
    for row in measure(options.steps, options.batch):
        own, bots, tracker = (f"{row.log_loss(name):.4f}" for name in ("this run", "BOTS", "tracker"))
        rows.append((row.run, own, bots, tracker, f"{row.seconds:.1f}", f"{row.seconds_a_belief:.2f}"))
        console.print(f"{row.run}: {row.comparison.advice}")
        for remark in row.comparison.remarks:
            console.print(f"    {remark}")
    console.print(table("run  >own log loss  >BOTS  >tracker  >seconds  >seconds a belief", rows))


if __name__ == "__main__":
    main()
