"""GET the comparison of a run's belief with others."""

from typing import Annotated

from fastapi import Query
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.openapi import answers_with
from bots_service.api.parameters import DatasetName, RunName, use_cases_of
from bots_service.api.problems import EVERY, RUN, documented
from bots_service.api.responses import json_response
from bots_service.api.security import allowed, guarded_router
from bots_service.core.comparison import paired, verdict
from bots_service.engine.comparing import ComparisonProgress, ComparisonResult
from bots_service.errors import OverloadedError
from bots_service.ports.keys import Scope

router = guarded_router(tags=["runs"])

Steps = Annotated[int, Query(ge=1, le=20_000, description="Number of last steps to compare.")]
Seq = Annotated[int | None, Query(ge=0, le=2**53, description="`seq` of an earlier response, to get its comparison.")]
Wait = Annotated[float, Query(ge=0, le=30, description="Longest time to wait for the comparison, in seconds.")]


class ErrorDifference(Struct, frozen=True):
    """The difference to the run's own error; below 0 the candidate is better.

    mean: over the rollouts.
    low, high: bounds of the 95 % interval; both below 0: the candidate is certainly better.
    """

    mean: float
    low: float
    high: float

    @classmethod
    def from_core(cls, found: paired.Difference | None) -> "ErrorDifference | None":
        """Return the answer for a difference."""
        return None if found is None else cls(found.mean, found.low, found.high)


class ComparedBelief(Struct, frozen=True):
    """One belief of a comparison: its settings and the errors of its predictions, over the same outcomes as all others.

    name: of the belief, distinct within the comparison; "this run" is the run itself.
    role: run (the run's own settings), tracker, bots (BOTS with its default settings), paper (BOTS as in the paper), or
        grid (BOTS with other values of forgetting and implicit_weight).
    belief: tracker or bots.
    forgetting, implicit_weight, capability: settings of the belief bots; null for others.
    references, tags, predictions: whether it uses those of the dataset; false shows what they are worth, no run can be
        set so.
    log_loss, brier: mean errors over the rollouts; smaller is better. Log loss in nats.
    calibration_error: mean difference between predicted and observed success rate, by tenths of the prediction.
    calibration_slope: rise of the observed success rate per rise of the prediction; 1 is ideal, below 1 the predictions
        are too extreme; null if all predictions are equal.
    log_loss_difference, brier_difference: to the run's own; null for the run itself and with too few steps.
    """

    name: str
    role: str
    belief: str
    forgetting: float | None
    implicit_weight: float | None
    capability: str | None
    references: bool
    tags: bool
    predictions: bool
    log_loss: float
    brier: float
    calibration_error: float
    calibration_slope: float | None
    log_loss_difference: ErrorDifference | None
    brier_difference: ErrorDifference | None

    @classmethod
    def from_score(cls, score: verdict.CandidateScore) -> "ComparedBelief":
        """Return the answer for a candidate."""
        candidate, settings = score.candidate, score.candidate.settings
        is_bots = settings.belief == "bots"
        return cls(
            name=candidate.name,
            role=candidate.role,
            belief=settings.belief,
            forgetting=settings.forgetting if is_bots else None,
            implicit_weight=settings.implicit_weight if is_bots else None,
            capability=settings.capability if is_bots else None,
            references=candidate.references,
            tags=candidate.tags,
            predictions=candidate.predictions,
            log_loss=score.log_loss,
            brier=score.brier,
            calibration_error=score.calibration_error,
            calibration_slope=score.calibration_slope,
            log_loss_difference=ErrorDifference.from_core(score.log_loss_difference),
            brier_difference=ErrorDifference.from_core(score.brier_difference),
        )


class BeliefComparison(Struct, frozen=True):
    """What each belief would have predicted before each step of the run, compared with the step's outcomes.

    begins_after: the step after which it begins; 0: with the run's first step.
    restarted: whether the run had a belief there already; all beliefs, its own too, begin fresh.
    first_step, last_step: the first and the last step with outcomes; 0 if there is none.
    steps: number of these steps; rollouts: in these steps.
    recommended: name of the belief to use; null: keep the run's own.
    advice: what to do, in one sentence.
    remarks: whether references, tags and predictions help, where that is certain; one sentence each.
    beliefs: all beliefs, the run itself first, the others by rising log loss; empty if no step has outcomes.
    """

    begins_after: int
    restarted: bool
    first_step: int
    last_step: int
    steps: int
    rollouts: float
    recommended: str | None
    advice: str
    remarks: list[str]
    beliefs: list[ComparedBelief]

    @classmethod
    def from_result(cls, result: ComparisonResult) -> "BeliefComparison":
        """Return the answer for a result."""
        found = result.comparison
        rivals = sorted(found.scores[1:], key=lambda score: score.log_loss)
        return cls(
            begins_after=result.begins_after,
            restarted=result.restarted,
            first_step=found.first_step,
            last_step=found.last_step,
            steps=found.steps,
            rollouts=found.rollouts,
            recommended=found.recommended,
            advice=found.advice,
            remarks=list(found.remarks),
            beliefs=[ComparedBelief.from_score(score) for score in (*found.scores[:1], *rivals)],
        )


class ComparisonResponse(Struct, frozen=True):
    """A comparison, or its progress while it is being computed.

    seq: the last journal entry in the comparison; send it with the next request while the comparison is null, so that a
        run in training doesn't start another one.
    folded, entries: number of journal entries computed so far, and in all; entries is 0 while it waits for another
        comparison.
    comparison: the result; null until it is complete.
    """

    seq: int
    folded: int
    entries: int
    comparison: BeliefComparison | None

    @classmethod
    def from_progress(cls, progress: ComparisonProgress) -> "ComparisonResponse":
        """Return the answer for a comparison that may be under way."""
        result = None if progress.result is None else BeliefComparison.from_result(progress.result)
        return cls(progress.seq, progress.folded, progress.entries, result)


EXAMPLE_RUN = ComparedBelief(
    "this run", "run", "bots", 0.1, 0.1, "least_squares", True, True, True, 0.588, 0.2, 0.06, 0.71, None, None
)
EXAMPLE_TRACKER = ComparedBelief(
    name="tracker",
    role="tracker",
    belief="tracker",
    forgetting=None,
    implicit_weight=None,
    capability=None,
    references=True,
    tags=True,
    predictions=True,
    log_loss=0.557,
    brier=0.187,
    calibration_error=0.02,
    calibration_slope=0.97,
    log_loss_difference=ErrorDifference(-0.031, -0.038, -0.024),
    brier_difference=ErrorDifference(-0.013, -0.016, -0.01),
)
EXAMPLE_COMPARISON = BeliefComparison(
    begins_after=0,
    restarted=False,
    first_step=1,
    last_step=400,
    steps=400,
    rollouts=204800.0,
    recommended="tracker",
    advice="Use the tracker: its log loss is 0.031 lower (0.024 to 0.038) over 400 steps.",
    remarks=["The dataset's references help the tracker: with them its log loss is 0.012 lower (0.008 to 0.016)."],
    beliefs=[EXAMPLE_RUN, EXAMPLE_TRACKER],
)


@router.get(
    "/datasets/{dataset}/runs/{run}/comparison",
    summary="Compare a run's belief with others",
    response_class=Response,
    responses={
        **answers_with(
            ComparisonResponse(400, 400, 400, EXAMPLE_COMPARISON),
            {200: "The comparison.", 202: "It is being computed; ask again with its `seq`."},
        ),
        **documented(*EVERY, *RUN, OverloadedError),
    },
)
@allowed(Scope.READ)
async def read_comparison(
    request: Request, dataset: DatasetName, run: RunName, steps: Steps = 5000, seq: Seq = None, wait_s: Wait = 5.0
) -> Response:
    """Compare the run's belief with others on the run's own outcomes.

    Computes what each belief would have predicted before each step. This takes about 10 seconds per 1,000 steps, for
    one comparison at a time per process: while the response is 202, ask again with its `seq`.
    """
    progress = await use_cases_of(request).compare_beliefs(dataset, run, steps=steps, seq=seq, wait_s=wait_s)
    return json_response(ComparisonResponse.from_progress(progress), 202 if progress.result is None else 200)
