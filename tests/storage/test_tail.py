"""The newest entries in memory: all of what is asked for, or nothing."""

from bots_service.core.entries import Entry
from bots_service.storage.sql.journal import ENTRY_BYTES, Tail
from tests.storage import made

SIZE = ENTRY_BYTES + 4 * (4 + 8 + 8 + 1)  # of an entry about 4 tasks


def entry(seq: int) -> Entry:
    return Entry(seq, 0, 3, made.report(seq, tasks=4))


def seqs(entries: list[Entry] | None) -> list[int] | None:
    return None if entries is None else [entry.seq for entry in entries]


def test_only_what_is_wholly_there_is_returned():
    tail = Tail(100 * SIZE)
    for seq in (4, 5, 6):
        tail.add(1, entry(seq))
    assert seqs(tail.between(1, 3, 6)) == [4, 5, 6]
    assert seqs(tail.between(1, 4, 5)) == [5]
    assert (tail.between(1, 2, 5), tail.between(1, 4, 7), tail.between(2, 3, 6)) == (None, None, None)


def test_after_a_gap_the_tail_begins_anew():
    tail = Tail(100 * SIZE)
    for seq in (4, 5, 7, 6):
        tail.add(1, entry(seq))
    assert tail.between(1, 3, 7) is None
    assert seqs(tail.between(1, 6, 7)) == [7]


def test_the_oldest_entries_of_the_run_appended_to_longest_ago_go_first():
    tail = Tail(3 * SIZE)
    for run, seq in [(1, 1), (2, 1), (1, 2), (1, 3)]:
        tail.add(run, entry(seq))
    assert tail.between(2, 0, 1) is None
    assert seqs(tail.between(1, 0, 3)) == [1, 2, 3]
    tail.add(1, entry(4))
    assert tail.between(1, 0, 4) is None
    assert seqs(tail.between(1, 1, 4)) == [2, 3, 4]
