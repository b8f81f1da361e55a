"""Checks that a run in a backup can be true, part by part: whatever is imported must fold."""

import zlib
from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np

from bots_service.core.belief.protocol import PoolSize
from bots_service.core.checks import are_within
from bots_service.core.codec import decode_state
from bots_service.core.entries import Entry, Forget, Fork, Report, Rewind
from bots_service.core.evidence import Evidence
from bots_service.core.groups import MOST_ORIGIN
from bots_service.core.plausibility import LARGEST_STEP, is_possible_evidence, is_possible_receipt, is_possible_state
from bots_service.core.predictions import PredictionsKey
from bots_service.core.receipt import Receipt
from bots_service.core.run_settings import RunSettings, fixed_flaws, settings_from
from bots_service.core.state import RunState
from bots_service.errors import InvalidBackupError, InvalidSettingsError
from bots_service.ports.backup import SavedParent, SavedReceipt, SavedRun
from bots_service.ports.records import DatasetFacts, Parent, RunRow, SnapshotRow

LAST_MOMENT = 1e11  # seconds since 1970: later times are refused


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
    _states: int = -1
    _rewinds: list[tuple[int, Rewind]] = field(default_factory=list)  # by seq
    _closed_at: dict[int, int] = field(default_factory=dict)  # where rewinds went back to -> the step
    _receipt: tuple[int, int] = field(init=False)  # seq and step of the last one

    def __post_init__(self) -> None:
        run = self.run
        self._seq = run.pruned
        self._receipt = (0, self._origin)
        self._require(run.pruned <= run.head, f"entries up to {run.pruned} of {run.head} were pruned")
        try:
            self.settings = settings_from(run.settings)
        except InvalidSettingsError as error:
            raise InvalidBackupError(f"run {run.name!r} of the backup: {error}", error.flaws) from error

    def row(self, run_id: int, dataset_id: int) -> RunRow:
        """Return the run as a row."""
        run, parent = self.run, self.run.parent
        return RunRow(
            id=run_id,
            uid=run.uid,
            dataset_id=dataset_id,
            name=run.name,
            settings=self.settings,
            head=run.head,
            epoch=run.epoch,
            created_at=run.created_at,
            parent=None if parent is None else _parent_of(parent),
            predictions=tuple(PredictionsKey(*key) for key in run.predictions),
        )

    @property
    def _most_profiles(self) -> int:
        """How many profiles there can be: predictions may tell all tasks apart."""
        return self.facts.size if self.run.predictions else self.facts.profiles

    def entries(self, entries: list[Entry]) -> None:
        """Check the next entries; rewinds among those that were pruned come after all others."""
        for entry in entries:
            if entry.seq <= self.run.pruned:
                self._old_rewind(entry)
                continue
            self._require(entry.seq == self._seq + 1, f"entry {entry.seq} follows entry {self._seq}")
            self._seq = entry.seq
            self._body(entry)

    def _old_rewind(self, entry: Entry) -> None:
        body, where = entry.body, f"entry {entry.seq}"
        is_next = all(seq < entry.seq or seq > self.run.pruned for seq, _ in self._rewinds[-1:])
        if not isinstance(body, Rewind) or entry.seq == 0 or not is_next:
            raise self._refusal(f"{where} was pruned")
        self._require(0 <= body.to_seq < entry.seq, f"{where} rewinds to entry {body.to_seq}")
        self._rewound(entry.seq, body)

    def _body(self, entry: Entry) -> None:
        body, where = entry.body, f"entry {entry.seq}"
        self._require(0 <= entry.profiles <= self._most_profiles, f"{where} knows {entry.profiles} profiles")
        if isinstance(body, Rewind):
            self._require(self.run.pruned <= body.to_seq < entry.seq, f"{where} rewinds to entry {body.to_seq}")
            self._rewound(entry.seq, body)
        if self._seq > self.run.pruned + 1 or self.run.pruned == 0:
            self._require(entry.epoch == self._epoch + isinstance(body, Rewind), f"{where} has epoch {entry.epoch}")
        self._epoch = entry.epoch
        is_begin = entry.seq == 1 and self.run.parent is not None
        self._require(isinstance(body, Fork) == is_begin, f"{where} is {'no' if is_begin else 'a'} fork")
        if isinstance(body, Fork):
            self._fork(body, where)
        elif isinstance(body, Report):
            self._report(body, where)
        elif isinstance(body, Forget):
            self._require(are_within(body.tasks, 0, self.facts.size - 1), f"{where} forgets tasks that nobody knows")

    def _rewound(self, seq: int, body: Rewind) -> None:
        step = self._closed_at.setdefault(body.to_seq, body.to_step)
        self._require(0 <= step == body.to_step <= self._latest(body.to_seq), f"entry {seq} rewinds to a step it names")
        self._rewinds.append((seq, body))

    def _fork(self, body: Fork, where: str) -> None:
        state = decode_state(body.state)
        self._state(state, where)
        parent = self.run.parent
        found = (body.parent, body.parent_seq, state.step)
        same = parent is not None and (parent.run, parent.seq, self._origin) == found
        same = same and (state.epoch, state.seq, state.settings) == (0, 0, self.settings)
        self._require(same, f"{where} begins elsewhere than the run says")

    def _report(self, body: Report, where: str) -> None:
        made_at = 0 if body.made_at is None else body.made_at
        self._require(0 <= made_at <= LARGEST_STEP, f"{where} speaks of step {made_at}")
        walked = all(walk.is_possible(self.facts.size) for walk in body.walks)
        self._require(walked, f"{where} walked where no selection can")
        self._evidence(body.evidence, where)
        self._require(body.costs.are_possible(), f"{where} has costs that no report can have")
        numbers = np.array([body.at, *body.selection], np.float64)
        possible = body.parts.are_possible(self.facts.size) and are_within(numbers, 0.0, MOST_ORIGIN)
        possible = possible and are_within(body.aborted, 0, self.facts.size - 1)
        self._require(possible, f"{where} has parts of groups that no report can have")

    def _evidence(self, seen: Evidence, where: str) -> None:
        known = all(0 <= task < self.facts.size for task in seen.tasks.tolist())
        self._require(known, f"{where} names tasks that are not in the dataset")
        possible = is_possible_evidence(seen, tasks=self.facts.size)
        self._require(possible, f"{where} has counts that no report can have")

    def receipts(self, rows: list[SavedReceipt], receipts: list[Receipt]) -> None:
        """Check the next receipts, as they were saved and as they will be read."""
        self._rewinds.sort(key=lambda rewind: rewind[0])  # all entries have come by now
        for row, receipt in zip(rows, receipts, strict=True):
            seq, where = receipt.seq, f"the receipt of entry {receipt.seq}"
            self._require(self._receipt[0] < seq <= self.run.head, f"a receipt of entry {seq} is out of order")
            self._require(seq > self.run.pruned or row.created_at is not None, f"{where} has no time")
            self._require(is_possible_receipt(receipt), f"{where} says what no fold can do")
            rewinds = bisect_right(self._rewinds, seq, key=lambda rewind: rewind[0])
            self._require(receipt.epoch == rewinds, f"{where} has epoch {receipt.epoch}")
            is_next, step = seq == self._receipt[0] + 1, self._receipt[1] + receipt.closed
            if rewinds and self._rewinds[rewinds - 1][0] == seq:
                is_next, step = True, self._rewinds[rewinds - 1][1].to_step
            stands = receipt.step == step if is_next else receipt.step <= self._latest(seq)
            self._require(stands, f"{where} stands at step {receipt.step}")
            target = self._closed_at.get(seq, receipt.step)
            self._require(target == receipt.step, f"a rewind goes to step {target} at entry {seq}, which is another")
            self._receipt = (seq, receipt.step)

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
        self._require(state.epoch <= self.run.epoch, f"{where} has epoch {state.epoch}")
        self._require(state.step <= self._latest(state.seq), f"{where} stands at step {state.step}")
        self._state(state, where)

    def _state(self, state: RunState, where: str) -> None:
        facts = self.facts
        models, tags = len(facts.reference_models), len(facts.offset_tags)
        predictions = len(self.run.predictions)
        size = PoolSize(facts.size, self._most_profiles, models, tags, predictions)
        possible = is_possible_state(state, size) and not fixed_flaws(state.settings, self.settings)
        self._require(possible, f"{where} is none that folding leads to")

    def end(self) -> None:
        """Check that nothing is missing."""
        self._require(self._seq == self.run.head, f"entries {self._seq + 1} to {self.run.head} are missing")
        whole = self.run.pruned == 0 or self._states >= self.run.pruned
        self._require(whole, "old entries were pruned, and no stored state stands for them")
        if self._seq > self.run.pruned:
            self._require(
                self._epoch == self.run.epoch, f"its epoch is {self.run.epoch}, its last entry's {self._epoch}"
            )
        rewinds = len(self._rewinds)
        self._require(rewinds == self.run.epoch, f"its epoch is {self.run.epoch}, and it was rewound {rewinds} times")

    @property
    def _origin(self) -> int:
        """The step at which the run begins."""
        return 0 if self.run.parent is None else _parent_of(self.run.parent).origin_step

    def _latest(self, seq: int) -> int:
        """Return the last step at which the run can have stood after entry `seq`: no entry closes two."""
        return min(self._origin + seq, LARGEST_STEP)

    def _require(self, is_so: bool, what: str) -> None:
        if not is_so:
            raise self._refusal(what)

    def _refusal(self, what: str) -> InvalidBackupError:
        return InvalidBackupError(f"run {self.run.name[:128]!r} of the backup is inconsistent: {what}")


def _parent_of(saved: SavedParent) -> Parent:
    return Parent(saved.run, saved.step, saved.seq, saved.how, saved.discount)
