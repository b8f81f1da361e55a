"""What a service did before its release is frozen: something of every kind that it stores.

`python -m tools.released` plays this, and keeps what the service then holds and answers.
"""

from dataclasses import dataclass, field
from typing import Any

import httpx

RUN_PATH = "/datasets/pool/runs"
STEPS = 4
# Kept with the settings that the service runs with: a run whose entries are pruned has stored states alone.
SNAPSHOT_EVERY = 5
LONG_RUN = 12

WAITING = {"dataset": "pool", "count": 4, "tags": ["code"]}
WAITING_KEY = "waiting"

# Each run with the settings that it begins with; the ones after `default` are made once that has been trained.
RUNS: dict[str, dict[str, Any]] = {
    "long": {"belief": "bots", "seed": 6},
    "default": {"seed": 1, "strategy": "pass"},
    "paper": {
        "belief": "bots",
        "capability": "paper",
        "strategy": "thompson",
        "tasks_per_step": 3,
        "reward_range": [-1, 1],
        "prior": [1, 2],
        "seed": 2,
    },
    "spaced": {"strategy": "spaced", "per_cost": "tokens", "min_effective": 0.01, "seed": 3},
    "mixed": {"mix": {"math": 3, "code": 1}, "mix_floor": 0.1, "seed": 4},
    "guarded": {"verifier_guard": True, "seed": 5},
    "fork": {"fork": {"run": "default", "step": 2}},
    "warm": {"warm_start": {"run": "default", "discount": 0.5}},
    "replay": {"replay_of": {"run": "default"}, "belief": "bots", "strategy": "mean", "cooldown": 1},
}


def task(number: int) -> dict[str, Any]:
    """Return a task: most have pass rates of two models, some one, some none; half are math."""
    made: dict[str, Any] = {"id": f"t{number}", "tags": ["math" if number % 2 else "code"]}
    if number % 5:
        made["reference_pass_rates"] = [number % 8 / 16, None if number % 7 == 0 else (number % 8 + 6) / 16]
    return made


def outcome(number: int, step: int) -> dict[str, Any]:
    """Return what rollouts of a task gave: rewards with costs, or counts, or nothing."""
    if number % 6 == 5:
        return {"task": f"t{number}", "status": "aborted"}
    if number % 2:
        return {
            "task": f"t{number}",
            "rewards": [0, 1, (number + step) % 3 / 2],
            "tokens": 100 + number,
            "seconds": 1.5,
        }
    return {"task": f"t{number}", "successes": (number + step) % 9, "trials": 8}


@dataclass(frozen=True)
class Caller:
    """Sends requests to a service. sent: those under a key."""

    http: httpx.AsyncClient
    sent: list[dict[str, Any]] = field(default_factory=list)

    async def send(self, method: str, path: str, body: object, key: str | None = None) -> Any:
        """Send a body, under an idempotency key if one is given; return the answer."""
        request = {"method": method, "path": path, "body": body, "key": key}
        answer = await again(self.http, request)
        assert answer.is_success, f"{method} {path}: {answer.text}"
        if key is not None:
            self.sent.append(request)
        return answer.json()


async def again(http: httpx.AsyncClient, request: dict[str, Any]) -> httpx.Response:
    """Send a request, once more if it was sent before."""
    headers = {} if request["key"] is None else {"Idempotency-Key": request["key"]}
    return await http.request(request["method"], request["path"], json=request["body"], headers=headers)


async def train(caller: Caller, run: str, steps: int = STEPS) -> None:
    """Select and report some steps, each report under a key of its own."""
    for step in range(steps):
        wanted = {"dataset": "pool", "run": run, "count": 6}
        selection = await caller.send("POST", "/select", wanted)
        outcomes = [outcome(int(chosen["id"][1:]), step) for chosen in selection["tasks"]]
        told = {"dataset": "pool", "run": run, "selection_id": selection["selection_id"], "outcomes": outcomes}
        # With a pruned entry its key is forgotten.
        await caller.send("POST", "/report", told, None if run == "long" else f"{run}-report-{step}")


async def play(caller: Caller) -> None:
    """Do all of it."""
    await _make_datasets(caller)
    for run, settings in RUNS.items():
        await caller.send("PUT", f"{RUN_PATH}/{run}", settings, f"{run}-put")
        if run == "guarded":
            await _train_until_rewards_turn_wrong(caller)
        elif run == "long":
            await train(caller, run, LONG_RUN)
            await caller.send("POST", "/prune", {"keep_journal_days": 1e-9})
        else:
            await train(caller, run, STEPS)
        if run == "default":
            await _change_much(caller)
    await _leave_work_in_flight(caller)


async def _make_datasets(caller: Caller) -> None:
    pool = {"reference_models": ["weak", "strong"], "tasks": [task(n) for n in range(20)]}
    await caller.send("PUT", "/datasets/pool", pool, "pool-put")
    await caller.send("POST", "/datasets/pool/tasks", {"tasks": [task(n) for n in range(20, 26)]}, "pool-append")
    await caller.send("DELETE", "/datasets/pool/tasks", {"ids": ["t3", "t4", "t6"]}, "pool-retire")
    await caller.send("POST", "/datasets/pool/tasks/restore", {"ids": ["t4"]}, "pool-restore")
    predicted = [{"id": f"t{n}", "pass_rate": n / 32} for n in range(0, 26, 2)]
    await caller.send("PUT", "/datasets/pool/predictions/probe", {"predictions": predicted}, "pool-predict")
    generators = {"generators": True, "tasks": [{"id": one, "tags": ["made"]} for one in ("add", "count", "sort")]}
    await caller.send("PUT", "/datasets/made", generators)
    selection = await caller.send("POST", "/select", {"dataset": "made", "count": 5})
    groups = [{"task": one["id"], "seed": one["seed"], "rewards": [0, 1]} for one in selection["tasks"]]
    told = {"dataset": "made", "selection_id": selection["selection_id"], "outcomes": groups}
    await caller.send("POST", "/report", told, "made-report")


async def _change_much(caller: Caller) -> None:
    """Rewind, change settings, import evidence, report in parts, late, and more than once."""
    run = f"{RUN_PATH}/default"
    await caller.send("POST", f"{run}/rewind", {"step": STEPS - 1}, "default-rewind")
    await caller.send("PATCH", run, {"target": 0.6, "lease_seconds": 600}, "default-patch")
    old = [{"task": f"t{n}", "successes": 3, "trials": 8, "age": n} for n in (1, 2, 8)]
    await caller.send("POST", f"{run}/evidence", {"outcomes": old}, "default-evidence")
    late = await caller.send("POST", "/select", {"dataset": "pool", "count": 2})
    for number in (9, 10, 11):
        part = {"dataset": "pool", "outcomes": [outcome(number, number)], "close_step": number % 2 == 0}
        await caller.send("POST", "/report", part, f"default-part-{number}")
    told = {"dataset": "pool", "selection_id": late["selection_id"], "close_step": True}
    outcomes = [{"task": one["id"], "successes": 2, "trials": 4} for one in late["tasks"]]
    await caller.send("POST", "/report", {**told, "outcomes": outcomes}, "default-late-report")
    await caller.send("POST", f"{run}/snapshots", {}, "default-snapshot")
    await caller.send("POST", f"{run}/predictions", {"name": "earlier", "step": 2}, "default-predictions")


async def _train_until_rewards_turn_wrong(caller: Caller) -> None:
    """Let groups be held twice, and drop the first ones."""
    for successes, steps in ((4, 5), (0, 1)):
        groups = [{"task": f"t{n}", "successes": successes, "trials": 8} for n in range(7, 26)]
        for _ in range(steps):
            await caller.send("POST", "/report", {"dataset": "pool", "run": "guarded", "outcomes": groups})
    await caller.send("POST", f"{RUN_PATH}/guarded/held", {"decision": "drop"}, "guarded-drop")
    groups = [{"task": f"t{n}", "successes": 0, "trials": 8} for n in range(7, 26)]
    await caller.send("POST", "/report", {"dataset": "pool", "run": "guarded", "outcomes": groups})


async def _leave_work_in_flight(caller: Caller) -> None:
    """End with an open step, and with a selection that nothing was reported of."""
    part = {"dataset": "pool", "outcomes": [outcome(8, 0)], "close_step": False}
    await caller.send("POST", "/report", part, "default-open")
    await caller.send("POST", "/select", WAITING, WAITING_KEY)
