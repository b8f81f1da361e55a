"""kill -9 at random moments under load: nothing acknowledged is lost, nothing is counted twice."""

import random
import threading
import time
import zlib
from dataclasses import asdict, dataclass, field

import httpx
import numpy as np

from bots_service.core.codec import encode_state
from bots_service.core.entries import Entry, Report
from bots_service.core.evidence import Evidence
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings
from bots_service.core.state import RunState, advance, fresh_state
from tests.servers import wait_until
from tests.serving import ServiceProcess
from tests.sizes import size
from tests.system.faults.oracle import walks_of

TASKS = 200
REPORTERS = 8
ROUNDS = size(3, 40)
TRIALS = 16
RUNS = {"default": RunSettings(), "bots": RunSettings(belief="bots", strategy="thompson")}


def references():
    grid = np.random.default_rng(1).integers(0, 17, (TASKS, 2)) / 16
    return np.sort(grid, axis=1)


@dataclass
class Sent:
    """One report: what was said, and the number under which it was acknowledged."""

    key: str
    tasks: list[int]
    successes: list[int]
    selection_id: str | None
    made_at: int | None
    close_step: bool | None
    seq: int = 0  # until it is acknowledged


@dataclass
class Reporter:
    """Reports to one run without a pause; a report that was not acknowledged is sent again under its key."""

    number: int
    run: str
    url: str
    sent: list[Sent] = field(default_factory=list)

    def work(self, until: threading.Event) -> None:
        rng = random.Random(self.number * 1000 + len(self.sent))
        with httpx.Client(base_url=self.url, timeout=30) as http:
            for report in self.sent:
                if report.seq == 0 and not self.send(http, report):
                    return
            while not until.is_set():
                made = self.make(http, rng)
                if made is None:
                    return
                self.sent.append(made)
                if not self.send(http, made):
                    return

    def make(self, http: httpx.Client, rng: random.Random) -> Sent | None:
        """Return the next report, of selected tasks or of others; None if the service is gone."""
        selection_id = made_at = None
        tasks = sorted(rng.sample(range(TASKS), 8))
        if rng.random() < 0.5:
            try:
                answer = http.post("/select", json={"dataset": "pool", "run": self.run, "count": 8})
            except httpx.TransportError:
                return None
            assert answer.status_code == 200, answer.text
            selection_id, made_at = answer.json()["selection_id"], answer.json()["step"]
            tasks = [int(task["id"]) for task in answer.json()["tasks"]]
        successes = [rng.randint(0, TRIALS) for _ in tasks]
        close = rng.choice([None, None, None, False, True])
        return Sent(f"{self.number}-{len(self.sent)}", tasks, successes, selection_id, made_at, close)

    def send(self, http: httpx.Client, report: Sent) -> bool:
        """Send the report; say whether it was acknowledged."""
        pairs = zip(report.tasks, report.successes, strict=True)
        body: dict[str, object] = {
            "dataset": "pool",
            "run": self.run,
            "outcomes": [{"task": str(task), "successes": count, "trials": TRIALS} for task, count in pairs],
        }
        if report.selection_id is not None:
            body["selection_id"] = report.selection_id
        if report.close_step is not None:
            body["close_step"] = report.close_step
        try:
            answer = http.post("/report", json=body, headers={"Idempotency-Key": report.key})
        except httpx.TransportError:
            return False
        assert answer.status_code == 200, answer.text
        report.seq = answer.json()["seq"]
        return True


def replayed(reports: list[Sent], settings: RunSettings) -> RunState:
    """Return the state that exactly these reports make, in the order of their numbers."""
    pool = Pool.of_tasks(references())
    state = fresh_state(settings, pool)
    for report in sorted(reports, key=lambda sent: sent.seq):
        successes = np.array(report.successes, float)
        failures = TRIALS - successes
        evidence = Evidence(np.array(report.tasks, np.int32), successes, failures, np.minimum(successes, failures) > 0)
        walks = () if report.selection_id is None else walks_of(report.selection_id)
        entry = Entry(report.seq, 0, pool.profiles, Report(evidence, report.made_at, report.close_step, walks))
        state, _ = advance(state, entry, pool)
    return state


def acknowledged(reporters: list[Reporter]) -> int:
    return sum(report.seq > 0 for reporter in reporters for report in reporter.sent)


def one_round(service: ServiceProcess, reporters: list[Reporter], pause_s: float) -> None:
    """Let all report for a moment, and kill the service meanwhile."""
    until = threading.Event()
    threads = [threading.Thread(target=reporter.work, args=(until,)) for reporter in reporters]
    known = acknowledged(reporters)
    for thread in threads:
        thread.start()
    wait_until(lambda: acknowledged(reporters) > known + REPORTERS)  # a busy machine may take long to begin
    time.sleep(pause_s)
    service.kill()
    until.set()
    for thread in threads:
        thread.join()


def test_after_any_kill_the_state_is_a_replay_of_exactly_the_acknowledged_reports(tmp_path):
    service = ServiceProcess(tmp_path, snapshot_every="40", log_level="warning")
    service.start()
    tasks = [{"id": str(task), "reference_pass_rates": rates} for task, rates in enumerate(references().tolist())]
    created = httpx.put(
        f"{service.url}/datasets/pool", json={"reference_models": ["weak", "strong"], "tasks": tasks}, timeout=30
    )
    assert created.status_code == 201, created.text
    assert httpx.put(f"{service.url}/datasets/pool/runs/bots", json={"belief": "bots"}).status_code == 201
    runs = sorted(RUNS)
    reporters = [Reporter(number, runs[number % len(runs)], service.url) for number in range(REPORTERS)]
    moments = random.Random(20)
    for _ in range(ROUNDS):
        one_round(service, reporters, moments.uniform(0.05, 0.8))
        service.start()

    done = threading.Event()
    done.set()
    for reporter in reporters:
        reporter.work(done)  # sends what is still in doubt, and nothing new
    with httpx.Client(base_url=service.url, timeout=30) as http:
        for run, settings in RUNS.items():
            reports = [report for reporter in reporters if reporter.run == run for report in reporter.sent]
            assert sorted(report.seq for report in reports) == list(range(1, len(reports) + 1))
            assert len(reports) > ROUNDS
            assert_holds(http, run, replayed(reports, settings))
    assert acknowledged(reporters) > ROUNDS * REPORTERS
    service.stop()


def assert_holds(http: httpx.Client, run: str, state: RunState) -> None:
    """Check that the service's run stands where this state does, and that its bytes are this state's."""
    path = f"/datasets/pool/runs/{run}"
    told = http.get(path).json()
    assert (told["seq"], told["step"], told["epoch"]) == (state.seq, state.step, 0)
    assert told["totals"] == asdict(state.totals)
    assert told["capability"] == state.belief.capability
    history = http.get(f"{path}/history", params={"limit": 1000}).json()["history"]
    assert [row["step"] for row in history] == list(range(1, min(state.step, 1000) + 1))
    assert http.post(f"{path}/snapshots").json()["checksum"] == f"{zlib.crc32(encode_state(state)):08x}"
