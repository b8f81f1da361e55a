"""A comparison in a file: machine, plan and courses as JSON."""

import json
import os
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.machine import memory_bytes, processor
from examples.grpo_cpu.course import Course
from examples.grpo_cpu.plan import Plan

LIBRARIES = ("torch", "transformers", "trl", "numpy")


@dataclass(frozen=True, slots=True)
class Results:
    """What was run, where, and the results."""

    machine: dict[str, Any]
    plan: Plan
    courses: list[Course]

    def as_json(self) -> dict[str, Any]:
        """Return it as values that JSON can carry."""
        return {
            "machine": self.machine,
            "plan": asdict(self.plan),
            "courses": [course.as_json() for course in self.courses],
        }

    @classmethod
    def read(cls, path: Path) -> "Results":
        """Return what a file holds."""
        values = json.loads(path.read_text("utf-8"))
        return cls(values["machine"], Plan(**values["plan"]), [Course.from_json(one) for one in values["courses"]])


def describe_machine() -> dict[str, Any]:
    """Return what the comparison is run on, without saying whose machine it is."""
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(memory_bytes() / 2**30, 1),
        "load_average": round(os.getloadavg()[0], 1),
        **{library: metadata.version(library) for library in LIBRARIES},
    }
