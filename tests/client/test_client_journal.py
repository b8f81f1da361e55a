"""What is read of a run besides its beliefs: its journal, and how many tasks a query is about."""

import pytest

from bots_client import JournalEntry, ServiceError, TaskCounts
from tests.client.answers import BELIEF, JOURNAL_ENTRY, SEGMENTS, page
from tests.client.scripted_server import answer


def test_an_entry_of_the_journal_is_read_in_full(serve, connect):
    (entry,) = connect(serve(answer(page("entries", JOURNAL_ENTRY)))).journal("guru")

    assert (entry.seq, entry.step, entry.kind, entry.hidden, entry.time.year) == (2, 1, "settings", True, 2026)
    changed = {**JOURNAL_ENTRY["changed"], "reward_range": (-1.0, 1.0)}
    assert entry.changed == changed
    assert {name: type(value) for name, value in entry.changed.items()} == {
        name: type(value) for name, value in changed.items()
    }


def test_the_journal_is_followed_to_its_end(serve, connect):
    server = serve(
        answer(page("entries", JOURNAL_ENTRY, cursor="c1")), answer(page("entries", {**JOURNAL_ENTRY, "seq": 1}))
    )
    found: list[JournalEntry] = list(connect(server).journal("guru"))

    assert [entry.seq for entry in found] == [2, 1]
    assert server.received[1].target.endswith("/journal?cursor=c1")


def test_tasks_are_counted_on_all_pages(serve, connect):
    bots = connect(serve(answer({**page("tasks", BELIEF, cursor="c1"), "segments": SEGMENTS})))

    counts = bots.count_tasks("guru", search="math")
    assert counts == TaskCounts(**SEGMENTS)
    assert counts.available == 1 + 2 + 3 + 4


@pytest.mark.parametrize(
    "body", [page("tasks", BELIEF), {"segments": None}, {"segments": {**SEGMENTS, "stuck": 0.5}}, []]
)
def test_a_count_that_is_none_is_refused(serve, connect, body):
    with pytest.raises(ServiceError, match="invalid body"):
        connect(serve(answer(body))).count_tasks("guru")
