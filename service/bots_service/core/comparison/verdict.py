"""What a comparison says: each candidate's errors, and which belief to use."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bots_service.core.arrays import Floats
from bots_service.core.comparison.candidates import Candidate
from bots_service.core.comparison.paired import Difference, difference, weighted_mean
from bots_service.core.comparison.refold import Scores
from bots_service.core.receipt import BINS

FEWEST_STEPS = 100  # with outcomes: blocks of 10 steps, and of 5 in each half
LEAST_VARIANCE = 1e-12  # of predictions: what rounding leaves of none at all


@dataclass(frozen=True, slots=True)
class CandidateScore:
    """The errors of a candidate's predictions; smaller is better.

    log_loss, brier: means over rollouts, as in a run's history; log loss in nats.
    calibration_error: mean over rollouts of |predicted - observed success rate| of the prediction's bin of ten.
    calibration_slope: how much the observed success rate rises when the prediction rises by 1, by least squares: below
        1 the predictions are too extreme. None if all predictions are equal.
    log_loss_difference, brier_difference: to the run itself; None for the run, and with too few steps.
    """

    candidate: Candidate
    log_loss: float
    brier: float
    calibration_error: float
    calibration_slope: float | None
    log_loss_difference: Difference | None
    brier_difference: Difference | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run's belief compared with others on the run's own outcomes.

    steps: how many had outcomes; first_step, last_step: the first and the last of them, 0 without any.
    rollouts: of all these steps.
    scores: of each candidate, the run itself first; empty without steps.
    recommended: the name of the belief to use; None where none is certainly better than the run's.
    advice: what to do, in a sentence.
    remarks: what references and tags are worth, where that is certain.
    """

    steps: int
    first_step: int
    last_step: int
    rollouts: float
    scores: tuple[CandidateScore, ...]
    recommended: str | None
    advice: str
    remarks: tuple[str, ...]


def compared(candidates: Sequence[Candidate], scores: Scores) -> Comparison:
    """Return the comparison.

    Args:
        candidates: [C] the run's own settings first.
        scores: of each step.
    """
    steps = len(scores.steps)
    if steps == 0:
        return Comparison(0, 0, 0, 0.0, (), None, f"Too few steps: none has outcomes, {FEWEST_STEPS} are needed.", ())
    is_enough = steps >= FEWEST_STEPS
    listed = tuple(_score(place, candidate, scores, is_enough) for place, candidate in enumerate(candidates))
    recommended, advice = _advice(candidates, scores) if is_enough else (None, _too_few(steps))
    return Comparison(
        steps=steps,
        first_step=int(scores.steps[0]),
        last_step=int(scores.steps[-1]),
        rollouts=float(scores.rollouts.sum()),
        scores=listed,
        recommended=recommended,
        advice=advice,
        remarks=_remarks(candidates, scores) if is_enough else (),
    )


def _score(place: int, candidate: Candidate, scores: Scores, is_enough: bool) -> CandidateScore:
    rollouts, has_rival = scores.rollouts, is_enough and place > 0
    log_loss, brier = scores.log_loss, scores.brier
    return CandidateScore(
        candidate=candidate,
        log_loss=weighted_mean(log_loss[:, place], rollouts),
        brier=weighted_mean(brier[:, place], rollouts),
        calibration_error=_calibration_error(scores.sums[place]),
        calibration_slope=_calibration_slope(scores.sums[place]),
        log_loss_difference=difference(log_loss[:, place], log_loss[:, 0], rollouts) if has_rival else None,
        brier_difference=difference(brier[:, place], brier[:, 0], rollouts) if has_rival else None,
    )


def _calibration_error(sums: Floats) -> float:
    rollouts, predicted, solved = sums[:BINS], sums[BINS : 2 * BINS], sums[2 * BINS : 3 * BINS]
    return float(np.abs(predicted - solved).sum() / rollouts.sum())


def _calibration_slope(sums: Floats) -> float | None:
    rollouts, predicted, solved = sums[: 3 * BINS].reshape(3, BINS).sum(axis=1).tolist()
    squares, both = sums[3 * BINS :].tolist()
    variance = squares / rollouts - (predicted / rollouts) ** 2
    if variance <= LEAST_VARIANCE:
        return None
    return float((both / rollouts - predicted * solved / rollouts**2) / variance)


def _too_few(steps: int) -> str:
    said = "step has" if steps == 1 else "steps have"
    return f"Too few steps: {steps} {said} outcomes, {FEWEST_STEPS} are needed. Keep this run's belief until then."


def _advice(candidates: Sequence[Candidate], scores: Scores) -> tuple[str | None, str]:
    """Return which belief to use, None for the run's own, and a sentence that says so.

    A point of the grid is chosen in hindsight: it is the best of many on the first half, by chance too. So it must win
    on the second half, which had no part in its choice. Other candidates were named before any outcome.
    """
    steps = len(scores.steps)
    half = steps // 2
    better = []
    for place in (_best_of_grid(candidates, scores, half), *_named(candidates)):
        since = half if candidates[place].role == "grid" else 0
        found = _against_run(scores, place, since)
        if found.is_lower:
            on_second = weighted_mean(scores.log_loss[half:, place], scores.rollouts[half:])
            better.append((on_second, place, since, found))
    if not better:
        return None, f"Keep this run's belief: no other predicts certainly better over {steps:,} steps."
    _, place, since, found = min(better)
    name = candidates[place].name
    where = f"over {steps:,} steps"
    if since:
        where = f"over the last {steps - since:,} of {steps:,} steps (the first half chose it)"
    return name, f"Use {_the(name)}: its log loss is {_lower(found)} {where}."


def _named(candidates: Sequence[Candidate]) -> list[int]:
    """Return the candidates besides the run and the grid that a run can be given: they see all that the dataset has."""
    return [
        place for place, each in enumerate(candidates) if each.role in ("bots", "paper", "tracker") and not each.hidden
    ]


def _best_of_grid(candidates: Sequence[Candidate], scores: Scores, half: int) -> int:
    """Return the point of the grid with the lowest log loss on the first half of the steps."""
    grid = [place for place, each in enumerate(candidates) if each.role == "grid"]
    return min(grid, key=lambda place: weighted_mean(scores.log_loss[:half, place], scores.rollouts[:half]))


def _against_run(scores: Scores, place: int, since: int) -> Difference:
    return difference(scores.log_loss[since:, place], scores.log_loss[since:, 0], scores.rollouts[since:])


def _remarks(candidates: Sequence[Candidate], scores: Scores) -> tuple[str, ...]:
    """Return what references, tags or predictions do for a belief that was tried without, where that is certain."""
    remarks = []
    for place, each in enumerate(candidates):
        if len(each.hidden) != 1:
            continue
        (hidden,) = each.hidden
        whole = next(i for i in _named(candidates) if candidates[i].role == each.role)
        found = difference(scores.log_loss[:, place], scores.log_loss[:, whole], scores.rollouts)
        name = _the(candidates[whole].name)
        if found.is_higher:
            better = Difference(-found.mean, -found.high, -found.low)
            remarks.append(f"The dataset's {hidden} help {name}: with them its log loss is {_lower(better)}.")
        elif found.is_lower:
            remarks.append(f"The dataset's {hidden} mislead {name}: without them its log loss is {_lower(found)}.")
    return tuple(remarks)


def _lower(found: Difference) -> str:
    return f"{-found.mean:.3f} lower ({-found.high:.3f} to {-found.low:.3f})"


def _the(name: str) -> str:
    return f"the {name}" if name.startswith("tracker") else name
