"""SIGTERM under load: the service answers what is under way, ends by itself, and loses nothing that it answered."""

import threading
import time

import httpx

from tests.serving import ServiceProcess

CALLERS = 16


def test_after_sigterm_under_load_everything_that_was_answered_is_there(tmp_path):
    service = ServiceProcess(tmp_path)
    service.start()
    tasks = [{"id": f"t{task}"} for task in range(500)]
    httpx.put(f"{service.url}/datasets/pool", json={"tasks": tasks}).raise_for_status()
    unanswered: list[Exception] = []
    answered: list[int] = []

    def call(number: int) -> None:
        body = {"dataset": "pool", "outcomes": [{"task": f"t{number}", "successes": 1, "trials": 2}]}
        with httpx.Client(timeout=30) as http:
            while True:
                try:
                    answer = http.post(f"{service.url}/report", json=body)
                except httpx.ConnectError:
                    return  # nobody listens any more: nothing was sent
                except httpx.TransportError as error:
                    unanswered.append(error)
                    return
                answered.append(answer.status_code)

    callers = [threading.Thread(target=call, args=(number,)) for number in range(CALLERS)]
    for caller in callers:
        caller.start()
    time.sleep(1.0)
    code = service.stop()
    for caller in callers:
        caller.join()

    # A request that meets the closing of an idle connection stays unanswered; a client sends it again under its key.
    assert len(unanswered) < CALLERS
    assert set(answered) == {200}
    assert code == 0
    service.start()
    seq = httpx.get(f"{service.url}/datasets/pool/runs/default").json()["seq"]
    assert len(answered) <= seq <= len(answered) + len(unanswered)
    assert service.stop() == 0
