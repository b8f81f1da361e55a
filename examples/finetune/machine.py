"""What a comparison ran on."""

import os
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from benchmarks.machine import memory_bytes, processor

LIBRARIES = ("torch", "transformers", "trl", "numpy")


def describe_machine(device: str) -> dict[str, Any]:
    """Return what the comparison is run on, without saying whose machine it is; only TRL's runs need all libraries."""
    accelerator = {"accelerator": accelerator_name()} if device == "cuda" else {}
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(memory_bytes() / 2**30, 1),
        "load_average": round(os.getloadavg()[0], 1),
        **accelerator,
        **{library: metadata.version(library) for library in LIBRARIES if find_spec(library)},
    }


def accelerator_name() -> str | None:
    """Return the name of the GPU that torch computes on; None: it can use none."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None
