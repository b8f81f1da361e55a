"""Random journals, and the fold of DESIGN section 2 written slowly and plainly: every task at every step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from msgspec import structs

from bots_service.core.arrays import frozen
from bots_service.core.entries import Body, Entry, GroupParts, Probe, Report, SettingsChange
from bots_service.core.evidence import MAX_TRIALS, NO_EVIDENCE, Evidence
from bots_service.core.pool import Pool, number_profiles
from bots_service.core.receipt import Receipt
from bots_service.core.run_settings import FIXED, RunSettings, settings_from
from bots_service.core.state import RunState, advance, fresh_state

Piece = tuple[int, float, float]  # task, successes, failures


def evidence_of(*pieces: Piece, effective: Sequence[bool] | None = None) -> Evidence:
    """Return evidence that is effective as told; if nothing is told, where it holds successes and failures."""
    if not pieces:
        return NO_EVIDENCE
    tasks, successes, failures = zip(*pieces, strict=True)
    told = [min(s, f) > 0 for _, s, f in pieces] if effective is None else effective
    return Evidence(
        frozen(np.array(tasks, np.int32)),
        frozen(np.array(successes, np.float64)),
        frozen(np.array(failures, np.float64)),
        frozen(np.array(told, bool)),
    )


def pool_of(*rows: tuple[float, ...], carried: Sequence[int] = ()) -> Pool:
    """Return a pool of tasks with these reference pass rates; `carried`: for each, its tags as bits."""
    bits = np.array(carried or [0] * len(rows), np.uint32)
    references, bits, profile_of = number_profiles(np.array(rows, np.float64).reshape(len(rows), -1), bits)
    names = tuple(f"tag {bit}" for bit in range(max(carried, default=0).bit_length()))
    carries = {name: np.flatnonzero(np.array(carried, np.uint32) >> bit & 1) for bit, name in enumerate(names)}
    tags = {name: frozen(tasks.astype(np.int32)) for name, tasks in carries.items() if len(tasks)}
    return Pool(references, profile_of, tags, offset_tags=names, carried=bits)


def carried_by_tasks(pool: Pool) -> list[int]:
    return pool.carried[pool.profile_of].tolist()


def report_of(
    *pieces: Piece, made_at: int | None = None, close: bool | None = None, effective: Sequence[bool] | None = None
) -> Report:
    return Report(evidence_of(*pieces, effective=effective), made_at, close)


def replay(pool: Pool, bodies: Sequence[Body], settings: RunSettings, state: RunState | None = None) -> RunState:
    state = state or fresh_state(settings, pool)
    for body in bodies:
        state, _ = advance(state, Entry(state.seq + 1, state.epoch, pool.profiles, body), pool)
    return state


# --- the slow reference ----------------------------------------------------------------------------------------------


@dataclass
class ClosedStep:
    """What one closed step knew: (successes, failures) of its tasks, c, rho m, lambda."""

    counts: dict[int, tuple[float, float]]
    capability: float | None
    booked: float
    forgetting: float


@dataclass
class DenseRun:
    """A run that keeps all evidence and computes each belief from the first step on, by the paper's Eq. 1."""

    pool: Pool
    settings: RunSettings
    capability: float | None = None
    sums: list[tuple[float, float]] = field(default_factory=list)  # S and T of each pair of neighbouring references
    closed: list[ClosedStep] = field(default_factory=list)
    waiting: list[tuple[int, float, float, bool, int]] = field(default_factory=list)
    reported: int = 0
    effective: int = 0
    all_solved: int = 0
    rollouts: float = 0.0
    joined: dict[str, int] = field(default_factory=dict)  # pass rates -> closed steps when they came
    # task -> visits, rollouts, successes, last step
    attempts: dict[int, tuple[int, float, float, int]] = field(default_factory=dict)

    @property
    def step(self) -> int:
        return len(self.closed)

    def take(self, entry: Entry) -> None:
        if isinstance(entry.body, SettingsChange):
            self.settings = structs.replace(self.settings, **entry.body.values)
            return
        report = entry.body
        assert isinstance(report, Report)
        for profile in range(entry.profiles):
            self.joined.setdefault(str(self.pool.references[profile].tolist()), self.step)
        made_at = self.step if report.made_at is None else min(report.made_at, self.step)
        evidence = report.evidence
        if self.step - made_at <= 64:
            columns = (evidence.tasks, evidence.successes, evidence.failures, evidence.effective)
            rows = zip(*(column.tolist() for column in columns), strict=True)
            self.waiting += [(*row, made_at) for row in rows]
        pending = len({task for task, *_ in self.waiting})
        wanted = self.settings.tasks_per_step
        full = report.close is None and pending > 0 if wanted is None else pending >= wanted
        if report.close or full:
            later = self._next_step(wanted) if full and wanted and not report.close else []
            self.close()
            self.waiting = [(*row[:4], max(row[4], self.step - 64)) for row in later]

    def _next_step(self, size: int) -> list[tuple[int, float, float, bool, int]]:
        """Take what came after so many tasks, or a multiple, out of what waits, and return it."""
        tasks = [task for task, *_ in self.waiting]
        firsts = [place for place, task in enumerate(tasks) if task not in tasks[:place]]
        ours = len(firsts) - len(firsts) % size
        begin = firsts[ours] if ours < len(firsts) else len(tasks)
        later, self.waiting = self.waiting[begin:], self.waiting[:begin]
        return later

    def close(self) -> None:
        on_time: dict[int, list[Piece]] = {}
        everything: dict[int, list[Piece]] = {}
        teaches: set[int] = set()
        for task, successes, failures, effective, made_at in self.waiting:
            if effective:
                teaches.add(task)
            everything.setdefault(task, []).append((task, successes, failures))
            if made_at == self.step:
                on_time.setdefault(task, []).append((task, successes, failures))
            else:
                had = self.closed[made_at].counts.get(task, (0.0, 0.0))
                self.closed[made_at].counts[task] = (had[0] + successes, had[1] + failures)
        self.estimate(_sums(on_time or everything))
        for task, parts in everything.items():
            rates = [s / (s + f) for _, s, f in parts]
            if task in teaches or max(rates) - min(rates) > 1e-9:
                self.effective += 1
            else:
                self.all_solved += sum(s for _, s, _ in parts) >= sum(f for _, _, f in parts)
        for task, (s, f) in _sums(everything).items():
            visits, rollouts, successes, _ = self.attempts.get(task, (0, 0.0, 0.0, 0))
            self.attempts[task] = visits + 1, rollouts + s + f, successes + s, self.step + 1
        self.reported += len(everything)
        self.rollouts += sum(s + f for s, f in _sums(everything).values())
        rollouts = self.settings.rollouts_per_task or (self.rollouts / self.reported if self.reported else 0.0)
        booked = self.settings.implicit_weight * rollouts
        self.closed.append(ClosedStep(_sums(on_time), self.capability, booked, self.settings.forgetting))
        self.waiting = []

    def estimate(self, counts: dict[int, tuple[float, float]]) -> None:
        rows = [(self.row(task), s / (s + f)) for task, (s, f) in sorted(counts.items())]
        rows = [(row, rate) for row, rate in rows if row and not any(map(math.isnan, row))]
        rows = [(row if len(row) > 1 else [0.0, *row], rate) for row, rate in rows]
        if not rows:
            return
        gamma = self.settings.capability_momentum
        pairs = len(rows[0][0]) - 1
        for pair in range(pairs):
            squares = _added([(row[pair + 1] - row[pair]) * (row[pair + 1] - row[pair]) for row, _ in rows])
            products = _added([(row[pair + 1] - row[pair]) * (rate - row[pair]) for row, rate in rows])
            if len(self.sums) <= pair:
                self.sums.append((squares, products))
            else:
                before = self.sums[pair]
                self.sums[pair] = (gamma * before[0] + squares, gamma * before[1] + products)
        if self.settings.capability == "least_squares":
            self.capability = _best_place(self.sums)
            return
        hint = _quotient(rows)
        if self.capability is None:
            self.capability = hint
        elif hint is not None:
            self.capability = gamma * self.capability + (1.0 - gamma) * hint

    def row(self, task: int) -> list[float]:
        return self.pool.references[self.pool.profile_of[task]].tolist()

    def rate(self, task: int, capability: float) -> float | None:
        row = self.row(task)
        if not row or any(map(math.isnan, row)):
            return None
        if len(row) == 1:
            row = [0.0, *row]
        below = 0
        while below < len(row) - 2 and capability >= below + 1:
            below += 1
        value = row[below] + (capability - below) * (row[below + 1] - row[below])
        return min(max(value, 0.0), 1.0)

    def belief(self, task: int) -> tuple[float, float]:
        prior_alpha, prior_beta = alpha, beta = self.settings.prior
        remembered_from = self.joined.get(str(self.row(task)), self.step) - 64
        for number, step in enumerate(self.closed):
            alpha = (1 - step.forgetting) * alpha + step.forgetting * prior_alpha
            beta = (1 - step.forgetting) * beta + step.forgetting * prior_beta
            rate = None if step.capability is None else self.rate(task, step.capability)
            if task in step.counts:
                alpha, beta = alpha + step.counts[task][0], beta + step.counts[task][1]
            elif rate is not None and number >= remembered_from:
                alpha, beta = alpha + step.booked * rate, beta + step.booked * (1 - rate)
        return alpha, beta

    @property
    def scale(self) -> float:
        """The prior, and all evidence that could stand in any sum by now: rounding is relative to this."""
        total = sum(self.settings.prior)
        for step in self.closed:
            largest = max((s + f for s, f in step.counts.values()), default=0.0)
            total = (1 - step.forgetting) * total + step.forgetting * sum(self.settings.prior) + step.booked + largest
        return total


def _sums(pieces: dict[int, list[Piece]]) -> dict[int, tuple[float, float]]:
    return {task: (math.fsum(p[1] for p in of), math.fsum(p[2] for p in of)) for task, of in pieces.items()}


def _quotient(rows: list[tuple[list[float], float]]) -> float | None:
    means = [_mean([row[model] for row, _ in rows]) for model in range(len(rows[0][0]))]
    reached = _mean([rate for _, rate in rows])
    below = 0
    for model in range(len(means) - 1):
        if max(means[: model + 1]) <= reached:
            below = model
    gap = means[below + 1] - means[below] + 1e-6
    return None if abs(gap) < 1e-3 else below + (reached - means[below]) / gap


def _best_place(sums: list[tuple[float, float]]) -> float:
    """The lowest of the parabolas between neighbouring references; the first and the last go on beyond the ends."""
    # In the order of the kernel, so that two places of one cost are told apart in the same way.
    middle, best, least, start = len(sums) / 2, math.nan, math.inf, 0.0
    for pair, (squares, products) in enumerate(sums):
        share = (products + middle - pair) / (squares + 1)
        if pair > 0:
            share = max(share, 0.0)
        if pair < len(sums) - 1:
            share = min(share, 1.0)
        cost = start + share * (share * squares - 2 * products) + (pair + share - middle) ** 2
        if cost < least:
            best, least = pair + share, cost
        start += squares - 2 * products
    return best


def _added(values: list[float]) -> float:
    total = 0.0
    for value in values:  # not sum(): since Python 3.12 that is compensated
        total += value
    return total


def _mean(values: list[float]) -> float:
    return _added(values) / len(values)


# --- random journals -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Story:
    """A run's settings, its pool in the end, and its journal."""

    settings: RunSettings
    pool: Pool
    entries: list[Entry]

    def replayed(self) -> tuple[RunState, list[Receipt]]:
        state, receipts = fresh_state(self.settings, self.pool), []
        for entry in self.entries:
            state, receipt = advance(state, entry, self.pool)
            receipts.append(receipt)
        return state, receipts


shares = st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]) | st.floats(0, 1)
quarters = st.integers(0, 64).map(lambda number: number / 4)
counts = st.integers(0, 16).map(float) | quarters | st.just(MAX_TRIALS / 2)
rollouts_per_task = st.sampled_from([None, None, 1, 4, 16, 1e5])
tasks_per_step = st.sampled_from([None, None, 1, 3])
bots_settings = st.fixed_dictionaries(
    {
        "belief": st.just("bots"),
        "forgetting": shares,
        "implicit_weight": shares,
        "capability_momentum": shares,
        "capability": st.sampled_from(["least_squares", "least_squares", "paper"]),
        "rollouts_per_task": rollouts_per_task,
        "prior": st.sampled_from([(1, 1), (0.5, 2.5), (1e-3, 1e-3), (1e6, 1e-3)]),
        "tasks_per_step": tasks_per_step,
    }
).map(settings_from)
tracker_settings = st.fixed_dictionaries(
    {"belief": st.just("tracker"), "rollouts_per_task": rollouts_per_task, "tasks_per_step": tasks_per_step}
).map(settings_from)
some_settings = bots_settings | tracker_settings


@st.composite
def pieces(draw, tasks: int) -> list[Piece]:
    chosen = draw(st.lists(st.integers(0, tasks - 1), max_size=6))
    drawn = [(task, draw(counts), draw(counts)) for task in chosen]
    return [(task, s, f if s + f > 0 else 1.0) for task, s, f in drawn]


@st.composite
def pools(draw, max_tasks: int = 8) -> Pool:
    models = draw(st.integers(0, 4))
    rate = st.integers(0, 16).map(lambda k: k / 16)
    row = st.tuples(*[rate] * models) | st.tuples(*[st.just(math.nan)] * models)
    rows = draw(st.lists(row, min_size=1, max_size=max_tasks))
    tags = draw(st.none() | st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows)))
    return pool_of(*rows, carried=tags or ())


@st.composite
def in_parts(draw, report: Report, tasks: int, seq: int) -> Report:
    """Return the report with parts of groups and aborted tasks; it came so many minutes after the run began."""
    rows = []
    for task, s, f in draw(pieces(tasks)):
        lost, low, high = draw(st.integers(0, 2)), draw(quarters), draw(quarters)
        rollouts = min(s + f + lost, MAX_TRIALS)
        size = min(rollouts + draw(st.integers(0, 4)), MAX_TRIALS)
        rows.append((task, size, rollouts, s, f, min(low, high), max(low, high)))
    columns = np.array(rows, np.float64).reshape(-1, 7).T.copy()
    aborted = np.unique(draw(st.lists(st.integers(0, tasks - 1), max_size=2))).astype(np.int32)
    return replace(
        report,
        aborted=frozen(np.setdiff1d(aborted, report.evidence.tasks)),
        parts=GroupParts(frozen(columns[0].astype(np.int32)), *map(frozen, columns[1:])),
        selection=(draw(st.integers(0, 2)), 0),
        at=1e9 + seq * draw(st.sampled_from([1.0, 60.0, 3600.0])),
    )


def _some_of(draw: st.DrawFn, values: dict[str, Any]) -> dict[str, Any]:
    """A change names what changes: one setting, some, or all of them."""
    names = draw(st.one_of(st.just(set(values)), st.sets(st.sampled_from(sorted(values)))))
    return {name: value for name, value in values.items() if name in names}


@st.composite
def stories(
    draw, max_entries: int = 10, settings: st.SearchStrategy[RunSettings] = some_settings, *, in_full: bool = True
) -> Story:
    """in_full: with all that the slow references know nothing of: groups in parts, aborts, and probes."""
    first, pool = draw(settings), draw(pools())
    dense, entries = DenseRun(pool, first), []
    tasks = draw(st.integers(1, len(pool)))
    for seq in range(1, draw(st.integers(1, max_entries)) + 1):
        tasks = draw(st.sampled_from([tasks, tasks, len(pool)]))
        body: Body
        kind = draw(st.integers(0, 9))
        if kind == 0:
            fixed = {name: getattr(first, name) for name in FIXED}
            others = settings.filter(lambda other: other.belief == first.belief)
            body = SettingsChange(_some_of(draw, {**structs.asdict(draw(others)), **fixed}))
        elif kind == 1 and in_full and first.belief == "tracker":
            scores = draw(st.lists(st.integers(-127, 127), min_size=1, max_size=tasks))
            body = Probe(frozen(np.array(scores, np.int8)))
        else:
            lag = draw(st.sampled_from([None, 0, 0, 1, 2, 3]))
            made_at = None if lag is None else max(dense.step - lag, 0)
            close = draw(st.sampled_from([None, None, True, False]))
            some = draw(pieces(tasks))
            told = draw(st.none() | st.lists(st.booleans(), min_size=len(some), max_size=len(some)))
            body = report_of(*some, made_at=made_at, close=close, effective=told)
            if kind < 7 and in_full:
                body = draw(in_parts(body, tasks, seq))
        entry = Entry(seq, 0, int(pool.profile_of[:tasks].max()) + 1, body)
        if not isinstance(body, Probe):
            dense.take(entry)
        entries.append(entry)
    return Story(first, pool, entries)
