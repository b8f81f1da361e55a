"""What the tests of resilience have in common."""

import time

from bots_client import Outcome
from bots_client._resilience.spool import Spool, spool_of

IDS = [f"t{n}" for n in range(40)]
QUICKLY_S = 20.0  # an upper bound for what takes well under a second, on a machine that is busy
SOON_S = 100.0  # a service that starts took 28 s on a busy machine


def wait_for(is_so):
    give_up = time.monotonic() + SOON_S
    while not is_so() and time.monotonic() < give_up:
        time.sleep(0.02)
    assert is_so()


def outcomes_of(selection, successes=2):
    return [Outcome.counts(task, successes, 4) for task in selection.ids]


def train_on(selector, tasks, rewards=(1, 0)):
    for task in tasks:
        selector.observe(task, rewards)
    return selector.step()


def train(selector, steps=1, count=4, rewards=(1, 0)):
    return [train_on(selector, selector.next(count).ids, rewards) for _ in range(steps)]


def spool_in(bots, dataset="guru", run="default", url=None) -> Spool:
    """Return the reports of a run that wait in a client's folder."""
    return spool_of(bots.spool, url=url or bots.direct.url, dataset=dataset, run=run, limit_bytes=10**6, on_loss=print)


def journalled(client, dataset):
    """Return the kinds of a run's journal entries that still count, oldest first."""
    return [entry.kind for entry in client.direct.journal(dataset) if not entry.hidden][::-1]
