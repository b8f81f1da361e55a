"""The figures as a file, kept by commit."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.bench import STEP_S, LoadRow, ShareRow
from benchmarks.cluster import ClusterRow
from benchmarks.kernels import KernelRow
from benchmarks.machine import commit, describe_machine
from benchmarks.profiles import KernelProfile, Profile
from benchmarks.recovery import RecoveryRow
from benchmarks.service import ImportRow, Row
from benchmarks.targets import Target, check_targets, quick_targets


@dataclass(slots=True)
class Results:
    """What one run of the benchmarks measured.

    topk: what the published selector's was, None where it ran not. stores: what the cluster leaned on.
    """

    quick: bool
    topk: str | None = None
    kernels: list[KernelRow] = field(default_factory=list)
    service: list[Row] = field(default_factory=list)
    stores: str | None = None
    cluster: list[ClusterRow] = field(default_factory=list)
    recovery: list[RecoveryRow] = field(default_factory=list)
    profiles: list[Profile] = field(default_factory=list)

    def targets(self) -> list[Target]:
        """Compare the figures with what is promised; those of a quick run also with what nothing reaches."""
        quick = quick_targets(self.kernels, self.service, self.cluster) if self.quick else []
        return [*check_targets(self.kernels, self.service, self.cluster, self.recovery), *quick]

    def missed(self) -> list[Target]:
        """Return the promises that the figures don't reach."""
        return [target for target in self.targets() if target.reached is False]

    def save(self, folder: Path) -> Path:
        """Write the figures to <commit>.json, and keep the parts of that file that were not measured now."""
        name, dirty = commit()
        path = folder / f"{name}.json"
        folder.mkdir(parents=True, exist_ok=True)
        parts = json.loads(path.read_text(encoding="utf-8"))["parts"] if path.exists() else {}
        header = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "dirty": dirty, "machine": describe_machine()}
        parts |= {part: {**header, **figures} for part, figures in self._parts().items()}
        parts["targets"] = {**header, "rows": self._target_rows(parts.get("targets", {}).get("rows", []))}
        rows = self._profile_rows(parts.get("profiles", {}).get("rows", []), parts["targets"]["rows"])
        parts.pop("profiles", None)
        if rows:
            parts["profiles"] = {**header, "rows": rows}
        content = {"commit": name, "quick": self.quick, "parts": parts}
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        return path

    def _parts(self) -> dict[str, dict[str, Any]]:
        parts: dict[str, dict[str, Any]] = {}
        if self.kernels:
            rows = [{**asdict(row), "times_faster": row.times_faster} for row in self.kernels]
            parts["kernels"] = {"baseline": "trinity-rft 0.6.0", "topk": self.topk, "rows": rows}
        loads = [row for row in self.service if isinstance(row, LoadRow)]
        shares = [row for row in self.service if isinstance(row, ShareRow)]
        imports = [row for row in self.service if isinstance(row, ImportRow)]
        if loads:
            parts["service"] = {"rows": _plain(loads)}
        if shares:
            parts["share"] = {"step_s": STEP_S, "rows": _plain(shares), "imports": _plain(imports)}
        if self.cluster:
            parts["cluster"] = {"stores": self.stores, "rows": list(map(_with_ratios, self.cluster))}
        if self.recovery:
            parts["recovery"] = {"rows": _plain(self.recovery)}
        return parts

    def _target_rows(self, earlier: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the targets measured now, and those measured earlier only."""
        rows = {row["promise"]: row for row in earlier}
        for target in self.targets():
            if target.measured is not None:
                figures = {field.name: getattr(target, field.name) for field in fields(Target) if field.name != "case"}
                rows[target.promise] = {**figures, "reached": target.reached}
        return list(rows.values())

    def _profile_rows(self, earlier: list[dict[str, Any]], targets: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the profiles of what is not reached: those made now, and those made earlier only."""
        rows = {row["promise"]: row for row in earlier}
        for profile in self.profiles:
            rows[profile.promise] = {
                "of": "kernel" if isinstance(profile, KernelProfile) else "load",
                **asdict(profile),
            }
        return [rows[target["promise"]] for target in targets if not target["reached"] and target["promise"] in rows]


def _plain(rows: Sequence[Row | RecoveryRow]) -> list[dict[str, Any]]:
    return [asdict(row) for row in rows]


def _with_ratios(row: ClusterRow) -> dict[str, Any]:
    ratios = {"p50_ratio": row.p50_ratio, "per_second_ratio": row.per_second_ratio}
    return {"place": row.place, "steps": row.steps, **asdict(row.load), "processor_ms": row.load.processor_ms, **ratios}
