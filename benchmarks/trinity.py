"""The published selector of BOTS, trinity-rft 0.6.0, unchanged from PyPI.

Fetched into build/bench (never committed) without what its trainer needs. Its selector and its estimator run
untouched; what stands around them and is never timed is replaced: its logger (which wants ray), its reader of data
sets, and omegaconf. Where torch is missing, its topk is numpy's argpartition.
"""

import importlib
import json
import subprocess
import sys
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.machine import ROOT
from bots_service.core.arrays import Floats
from bots_service.core.run_settings import RunSettings

HOME = ROOT / "build" / "bench"
TRINITY = "trinity-rft==0.6.0"
TORCH = "torch==2.13.0"


class NotFetchedError(Exception):
    """The published selector is not here and could not be fetched."""


@dataclass(frozen=True, slots=True)
class PublishedState:
    """The published selector, ready to be made.

    selector, config: its classes.
    topk: what finds its k best, as in "torch 2.13.0+cpu".
    """

    selector: Any
    config: Any
    topk: str

    def over(self, references: Floats, settings: RunSettings, *, seed: int = 0) -> Any:
        """Return a selector of the pool with these pass rates, [N, 2], set up as a run with these settings is."""
        columns = {"weak": references[:, 0], "strong": references[:, 1]}
        source = SimpleNamespace(dataset=columns, dataset_size=len(references))
        options = {
            "do_sample": True,
            "tau": 0,
            "target_reward": settings.target,
            "m": settings.rollouts_per_task,
            "lamb": settings.forgetting,
            "rho": settings.implicit_weight,
        }
        return self.selector(source, self.config(seed=seed, feature_keys=list(columns), kwargs=options))


def fetch(*, with_torch: bool | None) -> None:
    """Fetch what is not there yet.

    Args:
        with_torch: whether to fetch torch too (CUDA builds take gigabytes); None does where pip offers a CPU build.

    Raises:
        NotFetchedError: pip could not fetch the selector.
    """
    if not (HOME / "trinity").exists() and not _pip("install", "--no-deps", "--target", str(HOME), TRINITY):
        raise NotFetchedError(f"pip could not fetch {TRINITY}")
    if with_torch is None:
        with_torch = _offers_cpu_build()
    if with_torch and not (HOME / "torch").exists():
        _pip("install", "--no-deps", "--target", str(HOME), TORCH)


def load() -> PublishedState:
    """Import the published selector.

    Raises:
        NotFetchedError: it is not there.
    """
    if not (HOME / "trinity").exists():
        raise NotFetchedError(f"{TRINITY} is not in build/bench")
    if str(HOME) not in sys.path:
        sys.path.append(str(HOME))  # last: numpy is this environment's for both
    topk = _torch_or_stand_in()
    _stand_in("trinity.utils.log", get_logger=lambda *_args, **_options: _Silent())
    _stand_in("trinity.buffer.reader.file_reader", _HFBatchReader=object)
    _stand_in("omegaconf", OmegaConf=None)
    selector = importlib.import_module("trinity.buffer.selector.selector")
    config = importlib.import_module("trinity.common.config")
    return PublishedState(selector.DifficultyBasedSelector, config.DataSelectorConfig, topk)


class _Silent:
    """A logger that says nothing."""

    def debug(self, *_words: object) -> None:
        """Say nothing."""

    info = warning = error = debug


class Topk:
    """The part of torch that the selector uses, in numpy."""

    @staticmethod
    def from_numpy(scores: Floats) -> Floats:
        """Return the scores."""
        return scores

    @staticmethod
    def topk(scores: Floats, count: int) -> SimpleNamespace:
        """Return the places of the best scores, best first, as `indices`."""
        best = np.argpartition(-scores, count - 1)[:count]
        return SimpleNamespace(indices=best[np.argsort(-scores[best])])


def _torch_or_stand_in() -> str:
    """Make `import torch` work; return what topk is."""
    try:
        return f"torch {importlib.import_module('torch').__version__}"
    except ImportError:
        _stand_in("torch", from_numpy=Topk.from_numpy, topk=Topk.topk)
        return "numpy argpartition"


def _stand_in(name: str, **members: object) -> None:
    module = ModuleType(name)
    module.__dict__.update(members)
    sys.modules[name] = module


def _offers_cpu_build() -> bool:
    """Say whether pip would take a torch that is marked as made for processors."""
    plan = _pip("install", "--dry-run", "--no-deps", "--ignore-installed", "--report", "-", TORCH)
    try:
        chosen = json.loads(plan)["install"][0]["metadata"]["version"]
    except (ValueError, LookupError):
        return False
    return str(chosen).endswith("+cpu")


def _pip(*arguments: str) -> str:
    """Return what pip says, "" if it failed; it may take minutes."""
    quiet = ("--quiet", "--disable-pip-version-check", "--no-input")
    done = subprocess.run(
        [sys.executable, "-m", "pip", *arguments, *quiet], capture_output=True, text=True, check=False
    )
    return (done.stdout or "done") if done.returncode == 0 else ""
