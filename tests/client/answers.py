"""What the service answers, as its wire contract has it."""

from typing import Any

DATASET: dict[str, Any] = {
    "name": "guru",
    "description": "maths",
    "reference_models": ["small", "large"],
    "tasks": 3,
    "retired": 1,
    "offset_tags": ["math"],
    "profiles": 2,
    "tags": {"math": 2},
    "digest": "d1",
    "created_at": "2026-01-02T03:04:05Z",
}
SETTINGS: dict[str, Any] = {
    "forgetting": 0.2,
    "implicit_weight": 0.1,
    "rollouts_per_task": 8,
    "target": 0.5,
    "prior": [1, 2],
    "capability_momentum": 0.9,
    "strategy": "uniform",
    "seed": 7,
    "tasks_per_step": 32,
    "reward_range": [-1, 1],
    "lease_seconds": 60,
}
RUN: dict[str, Any] = {
    "dataset": "guru",
    "run": "default",
    "settings": SETTINGS,
    "epoch": 1,
    "step": 12,
    "seq": 14,
    "capability": 0.4,
    "estimates": {"capability": 0.4},
    "pending": 2,
    "leased": 3,
    "degraded": True,
    "totals": {
        "reported": 9,
        "effective": 5,
        "all_solved": 2,
        "none_solved": 2,
        "rollouts": 144,
        "successes": 70.5,
        "late": 1,
        "expired": 0,
        "distinct": 6,
    },
    "coverage": {
        "available_tasks": 12,
        "distinct_tasks": 6,
        "reached_share": 0.5,
        "mean_visits": 1.5,
        "most_visits": 3,
        "top_tenth_share": 0.25,
        "pass_steps": 16,
        "unmet_share": None,
        "visits_per_met_task": None,
        "passes_done": 0,
        "pass_share": 0.75,
        "narrow": False,
        "reason": None,
    },
    "forked_from": {"run": "other", "step": 3, "seq": 4, "how": "fork", "discount": None},
    "created_at": "2026-01-02T03:04:05.5+00:00",
}
SUMMARY: dict[str, Any] = {
    "dataset": "guru",
    "run": "default",
    "belief": "tracker",
    "strategy": "pass",
    "created_at": "2026-01-02T03:04:05Z",
    "status": "running",
    "step": 12,
    "epoch": 1,
    "seq": 14,
    "last_step_at": "2026-01-02T03:04:05Z",
    "reported": 9,
    "effective": 5,
    "rollouts": 144.0,
    "effective_task_ratio": 0.5,
    "trend": [None, 0.25, 0.5],
    "gain": {
        "source": "measured",
        "baseline": "even",
        "factor": 1.25,
        "rollouts_saved": 36.0,
        "rollouts_spent": 144.0,
        "steps": 12,
        "own_ratio": 0.5,
        "uniform_ratio": 0.4,
        "uniform_effective_task_ratio": 0.375,
    },
    "verdict": {"kind": "healthy", "reason": "50% of the tasks were effective.", "advice": "No action is needed."},
    "attention": True,
    "refused": {"count": 2, "last_at": "2026-01-02T03:04:05Z", "reason": "reward -1.0 at 0 is outside [0, 1]"},
}
OVERVIEW_TOTALS: dict[str, Any] = {
    "datasets": 1,
    "runs": 2,
    "attention": 1,
    "unjudged": 1,
    "running": 1,
    "stalled": 1,
    "reported": 9,
    "effective": 5,
    "rollouts": 144.0,
}
TAG: dict[str, Any] = {
    "tag": "math",
    "tasks": 3,
    "pool_share": 0.75,
    "reported": 4,
    "selected_share": 0.5,
    "effective": 1,
    "effective_task_ratio": 0.25,
    "rollouts": 64.0,
    "mean_pass_rate": 0.5,
    "earlier_mean_pass_rate": None,
}
SELECTION: dict[str, Any] = {
    "selection_id": "s-1",
    "dataset": "guru",
    "run": "default",
    "epoch": 0,
    "step": 12,
    "seq": 12,
    "degraded": False,
    "reused": 1,
    "tasks": [
        {"id": "math-17", "draw": 0.497, "mean": 0.52, "effective": 0.98},
        {"id": "math-4", "draw": None, "mean": 0.5, "effective": 1},
    ],
}
RECEIPT: dict[str, Any] = {
    "seq": 13,
    "step": 13,
    "closed": True,
    "reported": 32,
    "effective": 20,
    "effective_task_ratio": 0.625,
    "capability": None,
    "late": 1,
    "expired": 2,
    "new_tasks": 5,
    "distinct_tasks": 300,
    "duplicate": True,
}
BELIEF: dict[str, Any] = {
    "id": "math-17",
    "alpha": 2.5,
    "beta": 1,
    "mean": 0.7,
    "interval": [0.2, 0.9],
    "effective": 0.75,
    "variance": 0.125,
    "attempts": 17,
    "successes": 4.5,
    "visits": 2,
    "last_step": None,
    "segment": "teaching",
    "tags": ["math"],
}
TASK_VISIT: dict[str, Any] = {
    "seq": 9,
    "step": 8,
    "successes": 2.5,
    "trials": 4,
    "mean_reward": 0.625,
    "effective": True,
    "late": False,
    "hidden": True,
    "time": "2026-01-02T03:04:05Z",
}
SEGMENTS: dict[str, Any] = {"untried": 1, "aborting": 0, "stuck": 2, "teaching": 3, "solved": 4, "retired": 5}
COUNTS: dict[str, Any] = {"segments": SEGMENTS}
HISTORY_STEP: dict[str, Any] = {
    "step": 1,
    "epoch": 0,
    "seq": 1,
    "reported": 4,
    "effective": 2,
    "effective_task_ratio": 0.5,
    "mean_pass_rate": 0.3,
    "rollouts": 64,
    "capability": 0.1,
    "brier": 0.2,
    "log_loss": 0.6,
    "late": 0,
    "new_tasks": 3,
    "distinct_tasks": 7,
    "time": "2026-01-02T03:04:05Z",
}
JOURNAL_ENTRY: dict[str, Any] = {
    "seq": 2,
    "epoch": 0,
    "step": 1,
    "kind": "settings",
    "tasks": None,
    "rollouts": None,
    "closed": None,
    "to_step": None,
    "changed": {"seed": 7, "target": 0.25, "strategy": "uniform", "reward_range": [-1.0, 1.0], "tasks_per_step": None},
    "hidden": True,
    "time": "2026-01-02T03:04:05Z",
}
LEASES: dict[str, Any] = {
    "leased": 33,
    "leases": [{"expires_at": "2026-01-02T03:04:05Z", "tasks": 32, "first": ["math-17", "math-4"]}],
}
SNAPSHOT: dict[str, Any] = {
    "seq": 13,
    "epoch": 0,
    "step": 12,
    "bytes": 512,
    "checksum": "abc",
    "created_at": "2026-01-02T03:04:05Z",
}
API_KEY: dict[str, Any] = {
    "id": "0123456789abcdef",
    "name": "trainer 7",
    "scopes": ["report", "select"],
    "datasets": ["guru*"],
    "created_at": "2026-01-02T03:04:05Z",
    "expires_at": "2026-02-02T03:04:05Z",
    "revoked_at": None,
}
WHOAMI: dict[str, Any] = {
    "guarded": True,
    "name": "trainer 7",
    "scopes": ["report", "select"],
    "datasets": ["guru*"],
    "expires_at": None,
}
NEW_API_KEY: dict[str, Any] = {**API_KEY, "key": "bots_0123456789abcdef_secret"}
VERSION: dict[str, Any] = {"version": "0.1.0", "python": "3.11.7", "numpy": "2.4.0", "schema": 3}


def page(name, *items, cursor=None):
    return {name: list(items), "next_cursor": cursor}
