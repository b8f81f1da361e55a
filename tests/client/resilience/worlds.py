"""What the tests of resilience have in common."""

import time

from bots_client import Outcome

IDS = [f"t{n}" for n in range(40)]
SOON_S = 60.0


def wait_for(is_so):
    """Wait until something is so."""
    give_up = time.monotonic() + SOON_S
    while not is_so() and time.monotonic() < give_up:
        time.sleep(0.02)
    assert is_so()


def outcomes_of(selection, successes=2):
    """Return the same counts for each task of a selection."""
    return [Outcome.counts(task, successes, 4) for task in selection.ids]


def journalled(client, dataset):
    """Return the kinds of a run's journal entries that still count, oldest first."""
    return [entry.kind for entry in client.direct.journal(dataset) if not entry.hidden][::-1]
