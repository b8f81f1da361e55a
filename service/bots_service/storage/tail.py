"""The newest journal entries of each run, in memory: most readers want just these. Entries never change."""

from collections import OrderedDict

from bots_service.core.entries import Entry, Fork, Report

ENTRY_BYTES = 840  # of an entry without what its arrays hold, as tracemalloc counts 20,000 reports of 32 tasks


class Tail:
    """Committed entries by run, without a gap from each run's oldest to its newest, within a number of bytes."""

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self._bytes = 0
        self._runs: OrderedDict[int, OrderedDict[int, Entry]] = OrderedDict()

    def add(self, run_id: int, entry: Entry) -> None:
        """Add the run's next entry; where some between are missing, what came before them is dropped."""
        entries = self._runs.setdefault(run_id, OrderedDict())
        newest = next(reversed(entries), 0)
        if entry.seq <= newest:
            return
        if entries and entry.seq != newest + 1:
            self._bytes -= sum(map(_nbytes, entries.values()))
            entries.clear()
        entries[entry.seq] = entry
        self._bytes += _nbytes(entry)
        self._runs.move_to_end(run_id)
        self._shrink()

    def between(self, run_id: int, seq: int, up_to: int) -> list[Entry] | None:
        """Return entries seq + 1 to up_to, None if not all of them are here."""
        entries = self._runs.get(run_id)
        if entries is None or seq + 1 not in entries or up_to not in entries:
            return None
        return [entries[wanted] for wanted in range(seq + 1, up_to + 1)]

    def _shrink(self) -> None:
        while self._bytes > self._capacity_bytes:
            run_id, entries = next(iter(self._runs.items()))
            _, oldest = entries.popitem(last=False)
            self._bytes -= _nbytes(oldest)
            if not entries:
                del self._runs[run_id]


def _nbytes(entry: Entry) -> int:
    body = entry.body
    if isinstance(body, Report):
        seen = body.evidence
        return ENTRY_BYTES + sum(each.nbytes for each in (seen.tasks, seen.successes, seen.failures, seen.effective))
    return ENTRY_BYTES + (len(body.state) if isinstance(body, Fork) else 0)
