"""Checks that a run in a backup can be true, part by part: whatever is imported must fold."""

import zlib
from dataclasses import dataclass, field

from bots_service.core.codec import decode_state
from bots_service.core.entries import Entry, Fork, Report, Rewind
from bots_service.core.run_settings import RunSettings, settings_from
from bots_service.core.state import RunState
from bots_service.errors import InvalidBackupError, InvalidSettingsError
from bots_service.ports.backup import SavedReceipt, SavedRun
from bots_service.ports.records import DatasetFacts, RunRow, SnapshotRow

LAST_MOMENT = 1e11  # seconds since 1970: times beyond it can't be told


@dataclass(slots=True)
class CheckedRun:
    """One run of a backup as it arrives. Every method raises InvalidBackupError for what can't be true.

    facts: of its dataset.
    """

    run: SavedRun
    facts: DatasetFacts
    settings: RunSettings = field(init=False)
    _seq: int = field(init=False)
    _epoch: int = 0
    _receipt: int = 0
    _states: int = -1

    def __post_init__(self) -> None:
        run = self.run
        self._seq = run.pruned
        self._require(run.pruned <= run.head, f"entries up to {run.pruned} of {run.head} were pruned")
        try:
            self.settings = settings_from(run.settings)
        except InvalidSettingsError as error:
            raise InvalidBackupError(f"run {run.name!r} of the backup: {error}", error.flaws) from error

    def row(self, run_id: int, dataset_id: int) -> RunRow:
        """Return the run as a row."""
        run = self.run
        return RunRow(
            run_id, run.uid, dataset_id, run.name, self.settings, run.head, run.epoch, run.created_at, run.parent
        )

    def entries(self, entries: list[Entry]) -> None:
        """Check the next entries; rewinds among those that were pruned come after all others."""
        for entry in entries:
            if entry.seq <= self.run.pruned:
                self._require(isinstance(entry.body, Rewind) and entry.seq > 0, f"entry {entry.seq} was pruned")
                continue
            self._require(entry.seq == self._seq + 1, f"entry {entry.seq} follows entry {self._seq}")
            self._seq = entry.seq
            self._body(entry)

    def _body(self, entry: Entry) -> None:
        body, where = entry.body, f"entry {entry.seq}"
        self._require(0 <= entry.profiles <= self.facts.profiles, f"{where} knows {entry.profiles} profiles")
        if isinstance(body, Rewind):
            self._require(self.run.pruned <= body.to_seq < entry.seq, f"{where} rewinds to entry {body.to_seq}")
        if self._seq > self.run.pruned + 1 or self.run.pruned == 0:
            self._require(entry.epoch == self._epoch + isinstance(body, Rewind), f"{where} has epoch {entry.epoch}")
        self._epoch = entry.epoch
        if isinstance(body, Fork):
            self._require(entry.seq == 1, f"{where} is a fork")
            self._fits(decode_state(body.state), where)
        elif isinstance(body, Report) and len(body.evidence):
            seen = body.evidence
            same = len(seen.tasks) == len(seen.successes) == len(seen.failures)
            self._require(same, f"{where} has counts for other tasks than its own")
            known = int(seen.tasks.min()) >= 0 and int(seen.tasks.max()) < self.facts.size
            self._require(known, f"{where} speaks of tasks that the dataset lacks")
            possible = float(seen.successes.min()) >= 0 and float(seen.failures.min()) >= 0
            self._require(possible, f"{where} has counts below zero")

    def receipts(self, rows: list[SavedReceipt]) -> None:
        """Check the next receipts."""
        for row in rows:
            self._require(self._receipt < row.seq <= self.run.head, f"a receipt of entry {row.seq}")
            self._receipt = row.seq

    def snapshot(self, row: SnapshotRow, blob: bytes) -> None:
        """Check a stored state.

        Raises:
            DamagedStateError: it can't be read.
        """
        state, where = decode_state(blob), f"the state at entry {row.seq}"
        same = (state.seq, state.epoch, state.step) == (row.seq, row.epoch, row.step)
        same = same and (len(blob), f"{zlib.crc32(blob):08x}") == (row.bytes, row.checksum)
        same = same and 0 <= row.created_at <= LAST_MOMENT
        self._require(same, f"{where} is another one than it says")
        self._require(self._states < row.seq <= self.run.head, f"{where} is out of order")
        self._states = row.seq
        self._fits(state, where)

    def _fits(self, state: RunState, where: str) -> None:
        belief = state.belief
        tasks = [belief.tried.settled.tasks, belief.tried.recent.tasks, state.open_step.evidence.tasks]
        known = all(len(some) == 0 or (some.min() >= 0 and some.max() < self.facts.size) for some in tasks)
        fits = known and belief.implied.shape[1] <= self.facts.profiles
        self._require(fits, f"{where} speaks of tasks that the dataset lacks")

    def end(self) -> None:
        """Check that nothing is missing."""
        self._require(self._seq == self.run.head, f"entries {self._seq + 1} to {self.run.head} are missing")
        whole = self.run.pruned == 0 or self._states >= self.run.pruned
        self._require(whole, "old entries were pruned, and no stored state stands for them")
        if self._seq > self.run.pruned:
            self._require(
                self._epoch == self.run.epoch, f"its epoch is {self.run.epoch}, its last entry's {self._epoch}"
            )

    def _require(self, is_so: bool, what: str) -> None:
        if not is_so:
            raise InvalidBackupError(f"run {self.run.name[:128]!r} of the backup can't be true: {what}")
