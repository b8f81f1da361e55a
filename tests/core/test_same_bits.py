"""A fold gives the same bytes with each set of instructions for which numpy has code of its own."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
FOUND: list[str] = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
AVX512 = [name for name in FOUND if "512" in name or name == "X86_V4"]


@functools.cache
def folded_without(*features: str) -> dict[str, Any]:
    """Return what a process says that folds without these features of the processor."""
    environment = os.environ | {"NPY_DISABLE_CPU_FEATURES": " ".join(features)}
    if features:  # as the oldest processor of its kind that OpenBLAS knows
        environment["OPENBLAS_CORETYPE"] = "Prescott"
    child = subprocess.run(
        [sys.executable, "-m", "tests.core.fold_child"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(child.stdout)


@pytest.mark.parametrize("without", [AVX512, FOUND], ids=["AVX-512", "any that numpy asks for"])
def test_a_fold_gives_the_same_bytes_without(without: list[str]):
    if not without:
        pytest.skip("this processor has none of them anyhow")
    spared = folded_without(*without)
    assert not set(spared["found"]) & set(without)
    assert spared["digests"] == folded_without()["digests"]
