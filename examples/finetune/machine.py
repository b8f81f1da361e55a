"""What a comparison ran on."""

import os
from importlib import metadata
from typing import Any

from benchmarks.machine import memory_bytes, processor

LIBRARIES = ("torch", "transformers", "trl", "numpy")


def describe_machine() -> dict[str, Any]:
    """Return what the comparison is run on, without saying whose machine it is."""
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(memory_bytes() / 2**30, 1),
        "load_average": round(os.getloadavg()[0], 1),
        **{library: metadata.version(library) for library in LIBRARIES},
    }
