"""What must be so: a replay of the committed journals, and the rules of both beliefs, written plainly."""

import copy
from dataclasses import dataclass, field, replace

import numpy as np

from bots_service.core.codec import decode_state, encode_state
from bots_service.core.entries import Entry, Fork, Rewind
from bots_service.core.open_step import NOTHING_OPEN
from bots_service.core.pool import Pool
from bots_service.core.receipt import Receipt
from bots_service.core.state import RunState, advance, fresh_state
from bots_service.engine.dataset_builder import DatasetBuilder, DatasetHeader
from bots_service.ports.records import RunRow
from tests.core.journals import DenseRun
from tests.core.pools import beta_parameters
from tests.core.slow_tracker import SlowTracker, assert_same
from tests.simulator.fake_sql import Sql


def evidence_bytes(state: RunState) -> bytes:
    """All that a rewind brings back: everything but epoch and seq."""
    return encode_state(replace(state, epoch=0, seq=0))


@dataclass
class Replay:
    """One run, folded entry by entry.

    states, receipts: after each entry, and before any. closings: for each of them, the entries that closed the steps
    of the history that was present then, by step. blobs: states as bytes, those that were asked for.
    """

    row: RunRow
    states: list[RunState]
    receipts: list[Receipt | None] = field(default_factory=lambda: [None])
    closings: list[dict[int, int]] = field(default_factory=lambda: [{0: 0}])
    blobs: dict[int, bytes] = field(default_factory=dict)


@dataclass
class Truth:
    """Replays of all runs, as far as they were asked for."""

    sql: Sql
    replays: dict[str, Replay] = field(default_factory=dict)
    pools: dict[int, Pool] = field(default_factory=dict)

    def pool(self) -> Pool:
        assert self.sql.dataset is not None
        size = self.sql.dataset.facts.size
        if size not in self.pools:
            builder = DatasetBuilder(DatasetHeader(self.sql.dataset.facts.reference_models))
            for block in self.sql.blocks:
                builder.add(block)
            self.pools[size] = builder.build(self.sql.dataset.facts)[2]
        return self.pools[size]

    def replay(self, name: str) -> Replay:
        """Return the run's replay up to its last committed entry."""
        table = self.sql.runs[name]
        made = self.replays.get(name)
        if made is None or made.row.uid != table.row.uid:
            made = self.replays[name] = Replay(table.row, [fresh_state(table.row.settings, self.pool())])
        for entry in table.entries[len(made.states) - 1 :]:
            self._fold(made, entry)
        return made

    def state(self, name: str, seq: int) -> RunState:
        return self.replay(name).states[seq]

    def blob(self, name: str, seq: int) -> bytes:
        made = self.replay(name)
        if seq not in made.blobs:
            made.blobs[seq] = encode_state(made.states[seq])
        return made.blobs[seq]

    def _fold(self, made: Replay, entry: Entry) -> None:
        base = None
        closings = dict(made.closings[-1])
        if isinstance(entry.body, Rewind):
            target = entry.body
            base = made.states[target.to_seq]
            assert closings[target.to_step] == target.to_seq, f"{entry} leads out of the present history"
            closings = {step: seq for step, seq in closings.items() if step <= target.to_step}
        if isinstance(entry.body, Fork):
            base = decode_state(entry.body.state)
            self._check_fork(entry.body, base)
            closings = {base.step: 1}
        state, receipt = advance(made.states[-1], entry, self.pool(), base=base)
        if isinstance(entry.body, Rewind):
            assert base is not None
            stood = replace(base, open_step=NOTHING_OPEN)
            assert evidence_bytes(state) == evidence_bytes(stood), f"{entry} does not give what stood there"
        if receipt.closed:
            closings[receipt.step] = entry.seq
        made.states.append(state)
        made.receipts.append(receipt)
        made.closings.append(closings)

    def _check_fork(self, body: Fork, begun: RunState) -> None:
        stood = self.state(body.parent, body.parent_seq)
        begin = replace(stood, epoch=0, seq=0, settings=begun.settings, open_step=NOTHING_OPEN)
        assert encode_state(begun) == encode_state(begin), "a fork does not begin with what its parent believed"

    # --- the slow rules ----------------------------------------------------------------------------------------------

    def assert_dense(self, name: str) -> None:
        """Compare the newest state with every task's belief, computed by a slow rule from the first step on."""
        state = self.replay(name).states[-1]
        dense = self._dense(name)[-1]
        assert state.step == dense.step
        if isinstance(dense, SlowTracker):
            assert_same(state, dense)
            return
        capability, wanted = state.belief.capability, dense.capability
        assert (capability is None) == (wanted is None)
        if capability is not None and wanted is not None:
            np.testing.assert_allclose(capability, wanted, rtol=1e-9, atol=1e-9)
        tasks = np.arange(len(dense.pool), dtype=np.int32)
        believed = beta_parameters(state.belief.distributions(dense.pool, tasks))
        by_rule = np.array([dense.belief(task) for task in range(len(dense.pool))]).T
        np.testing.assert_allclose(believed, by_rule, rtol=0, atol=1e-9 * dense.scale)

    def _dense(self, name: str) -> list[DenseRun]:
        """Return the run after each entry, and before any."""
        table = self.sql.runs[name]
        kind = {"bots": DenseRun, "tracker": SlowTracker}[table.row.settings.belief]
        runs: list[DenseRun] = [kind(self.pool(), table.row.settings)]
        for entry in table.entries:
            run = copy.deepcopy(runs[-1])
            if isinstance(entry.body, Rewind):
                run = copy.deepcopy(runs[entry.body.to_seq])
                run.waiting = []
            elif isinstance(entry.body, Fork):
                run = copy.deepcopy(self._dense(entry.body.parent)[entry.body.parent_seq])
                run.waiting, run.settings = [], decode_state(entry.body.state).settings
            else:
                run.take(entry)
            runs.append(run)
        return runs
