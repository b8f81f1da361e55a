"""Trainers in a container: select and report without a pause until SIGTERM, then say what was acknowledged.

Run as `python -c "$(cat trainers.py)" URL DATASET`. Prints a line for each run that is at work and, at the
end, a JSON object: of each run, the numbers of its acknowledged reports and how many calls failed.
"""

import json
import signal
import sys
import threading

from bots_client import BotsClientError, Client, Outcome, Task

RUNS = ("a", "b", "c", "d")
CALL_S = 60.0  # longer than any server here takes to come back


def train(url: str, dataset: str, run: str, acknowledged: list[int], failed: list[str], ended: threading.Event) -> None:
    with Client(url, deadline_s=CALL_S) as bots:
        while not ended.is_set():
            try:
                selection = bots.select(dataset, 4, run=run)
                outcomes = [Outcome.counts(task, 1, 4) for task in selection.ids]
                acknowledged.append(bots.report(dataset, outcomes, run=run, selection=selection).seq)
            except BotsClientError as error:
                failed.append(str(error))
            if len(acknowledged) == 3:
                print("at work", run, flush=True)


def main() -> None:
    url, dataset = sys.argv[1:]
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with Client(url) as bots:
        bots.create_dataset(dataset, [Task(f"task-{number}") for number in range(100)])
        for run in RUNS:
            bots.create_run(dataset, run)
    told: dict[str, tuple[list[int], list[str]]] = {run: ([], []) for run in RUNS}
    threads = [threading.Thread(target=train, args=(url, dataset, run, *told[run], ended)) for run in RUNS]
    for thread in threads:
        thread.start()
    ended.wait()
    for thread in threads:
        thread.join()
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
