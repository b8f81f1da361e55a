"""Folds journals and prints what the processor was asked to do without, and a digest of the bytes of all states.

`test_same_bits.py` runs it as a process of its own: numpy reads what it may use of the processor when it is imported.
"""

import hashlib
import json
import random
import sys

import numpy as np

from bots_service.core.codec import encode_state
from bots_service.core.entries import Entry
from bots_service.core.pool import Pool
from bots_service.core.run_settings import settings_from
from bots_service.core.state import advance, fresh_state, parts_of
from tests.core.journals import Piece, pool_of, report_of
from tests.core.test_tracker import JOURNALS, folded
from tests.sizes import size

STEPS = size(70, 120)  # evidence is remembered for 64
SHAPES = {"two references": (2, 0), "one, with tags": (1, 3)}


def random_pool(rng: random.Random, models: int, tags: int, tasks: int = 900) -> Pool:
    """Tasks of which every ninth has unknown references."""
    rows = [
        tuple(float("nan") if task % 9 == 8 else rng.randint(0, 16) / 16 for _ in range(models))
        for task in range(tasks)
    ]
    return pool_of(*rows, carried=[rng.getrandbits(tags) | 1 for _ in rows] if tags else ())


def random_pieces(rng: random.Random, tasks: int) -> list[Piece]:
    """Counts of whole and fractional rewards, all solved, none solved; now and then of many tasks at once."""
    pieces = []
    for task in rng.sample(range(tasks), rng.choice([1, 7, 32, 32, 700])):
        trials = rng.choice([1, 4, 16, 512])
        solved = rng.choice([0.0, trials, rng.randint(0, trials), trials * rng.random()])
        pieces.append((task, float(solved), trials - solved))
    return pieces


def digest_of_journal(kind: str, shape: str) -> str:
    rng, digest = random.Random(shape), hashlib.sha256()
    pool = random_pool(rng, *SHAPES[shape])
    state = fresh_state(settings_from({"belief": kind}), pool)
    while state.step < STEPS:
        made_at = max(state.step - rng.choice([0, 0, 0, 1, 2, 40]), 0)
        close = rng.choice([None, None, False])
        body = report_of(*random_pieces(rng, len(pool)), made_at=made_at, close=close)
        state, _ = advance(state, Entry(state.seq + 1, 0, pool.profiles, body), pool)
        digest.update(encode_state(state))
    return digest.hexdigest()


def digest_of_golden_journals() -> str:
    digest = hashlib.sha256()
    for pool, steps in JOURNALS.values():
        for part in parts_of(folded(pool, steps)):
            digest.update(part.tobytes() if isinstance(part, np.ndarray) else b"")
    return digest.hexdigest()


def digests() -> dict[str, str]:
    golden = {"golden": digest_of_golden_journals()}
    return golden | {
        f"{kind}, {shape}": digest_of_journal(kind, shape) for kind in ("bots", "tracker") for shape in SHAPES
    }


if __name__ == "__main__":
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    json.dump({"found": found, "digests": digests()}, sys.stdout)
