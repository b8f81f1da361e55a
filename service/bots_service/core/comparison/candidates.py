"""The beliefs that a comparison tries, and the pool as each of them sees it."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from bots_service.core.arrays import Counts
from bots_service.core.pool import Pool, number_profiles
from bots_service.core.run_settings import RunSettings

FORGETTING = (0.0, 0.02, 0.05, 0.1, 0.2)
IMPLICIT_WEIGHT = (0.0, 0.05, 0.1, 0.2)

Role = Literal["run", "bots", "paper", "grid", "tracker"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A belief that a comparison tries.

    role: "run", the run's own settings; "tracker"; "bots" and "paper", BOTS with its default settings and with the
        paper's; or "grid", other values of its two main settings.
    settings: of the belief. The run's own may change during its journal; all others stay.
    references, tags, predictions: whether it sees those of the dataset.
    """

    role: Role
    settings: RunSettings
    references: bool = True
    tags: bool = True
    predictions: bool = True

    @property
    def sees(self) -> tuple[bool, bool, bool]:
        """Whether it sees references, tags and predictions."""
        return self.references, self.tags, self.predictions

    @property
    def hidden(self) -> tuple[str, ...]:
        """What of the dataset it doesn't see."""
        return tuple(
            name for name, seen in zip(("references", "tags", "predictions"), self.sees, strict=True) if not seen
        )

    @property
    def name(self) -> str:
        """What to call it; no two candidates of a comparison have one name."""
        kind = "tracker" if self.role == "tracker" else "BOTS"
        without = f" without {' and '.join(self.hidden)}" if self.hidden else ""
        detail = {
            "run": "this run",
            "paper": "BOTS as in the paper",
            "grid": f"BOTS, forgetting {self.settings.forgetting:g}, implicit weight {self.settings.implicit_weight:g}",
        }
        return detail.get(self.role, kind) + without


def candidates_for(own: RunSettings, pool: Pool) -> tuple[Candidate, ...]:
    """Return the candidates for a run, its own settings first.

    Those that can't differ are left out: without references, neither the implicit weight nor the rule of capability
    changes anything; and belief "bots" knows neither tags nor predictions.

    Args:
        own: the run's settings where the comparison begins.
        pool: its tasks.
    """
    bots, tracker = RunSettings(belief="bots", strategy="thompson"), RunSettings()
    found = [Candidate("run", own), Candidate("bots", bots), Candidate("tracker", tracker)]
    if pool.has_references:
        found.append(Candidate("paper", replace(bots, capability="paper")))
        found.append(Candidate("bots", bots, references=False))
        found.append(Candidate("tracker", tracker, references=False))
    if pool.offset_tags:
        found.append(Candidate("tracker", tracker, tags=False))
    if pool.has_references and pool.offset_tags:
        found.append(Candidate("tracker", tracker, references=False, tags=False))
    if pool.prediction_names:
        found.append(Candidate("tracker", tracker, predictions=False))
    weights = IMPLICIT_WEIGHT if pool.has_references else (bots.implicit_weight,)
    grid = [replace(bots, forgetting=lost, implicit_weight=weight) for lost in FORGETTING for weight in weights]
    found += [Candidate("grid", settings) for settings in grid if settings != bots]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool as one candidate sees it.

    pool: the tasks, without what the candidate doesn't see.
    numbers: [G] for each profile of the whole pool, its number here.
    """

    pool: Pool
    numbers: Counts

    def profiles(self, known: int) -> int:
        """Return how many profiles there were here when the whole pool had so many."""
        return int(self.numbers[:known].max(initial=-1)) + 1


def view(pool: Pool, candidate: Candidate) -> PoolView:
    """Return the pool as the candidate sees it; tasks that it can't tell apart have one profile."""
    if not candidate.hidden:
        return PoolView(pool, np.arange(pool.profiles))
    references = pool.references if candidate.references else pool.references[:, :0]
    shows_tags = candidate.tags and bool(pool.offset_tags)
    carried = pool.carried if shows_tags else np.zeros(pool.profiles, np.uint32)
    references, carried, numbers = number_profiles(references, carried)
    tags = pool.offset_tags if shows_tags else ()
    seen = Pool(references, numbers, offset_tags=tags, carried=carried)
    if candidate.predictions and pool.prediction_names:
        seen = seen.with_predictions(pool.prediction_names, pool.predictions)
    numbers = seen.profile_of
    return PoolView(replace(seen, profile_of=numbers[pool.profile_of]), numbers.astype(np.int64))
