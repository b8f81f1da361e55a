"""Another replica acts between two looks of one call: the call is refused, or its answer is of one moment."""

import pytest

from bots_service.core.receipt import Receipt
from bots_service.core.state import RunState
from bots_service.errors import BusyError
from bots_service.ports.records import RunRow
from bots_service.usecases.catch_up import CatchUp
from bots_service.usecases.open_run import OpenRun
from tests.usecases.replicas import Replica
from tests.usecases.world import POOL, outcome


async def test_a_rewind_to_a_step_that_is_abandoned_meanwhile_is_refused(
    replicas: tuple[Replica, Replica], monkeypatch: pytest.MonkeyPatch
):
    here, there = replicas
    for task in range(3):
        await here.report(outcome(f"t{task}"))
    closing = CatchUp.closing

    async def overtaken(self: CatchUp, run: OpenRun, step: int) -> int:
        seq = await closing(self, run, step)
        if self is here.use.rewind_run.catch_up:
            await there.rewind(1)
        return seq

    monkeypatch.setattr(CatchUp, "closing", overtaken)
    with pytest.raises(BusyError):
        await here.rewind(2)
    assert ((await here.state()).step, (await here.state()).epoch) == (1, 1)
    await here.assert_is_a_replay()


async def test_a_history_has_no_hole_while_another_replica_keeps_what_it_folded(
    replicas: tuple[Replica, Replica], monkeypatch: pytest.MonkeyPatch
):
    here, there = replicas
    for task in range(2):
        await here.report(outcome(f"t{task}"))
    journal = there.use.report_outcomes.journal
    keep, mend = journal.keep_receipts, CatchUp.mend_receipts

    async def slow_with_the_third(run: RunRow, receipts: list[Receipt]) -> None:
        await keep(run, [receipt for receipt in receipts if receipt.seq != 3])

    async def then_others_report(self: CatchUp, run: OpenRun) -> RunState:
        state = await mend(self, run)
        for task in range(2, 4):
            await there.report(outcome(f"t{task}"))
        await there.use.select_tasks.live(run.row.id).settled()
        return state

    monkeypatch.setattr(journal, "keep_receipts", slow_with_the_third)
    with monkeypatch.context() as patched:
        patched.setattr(CatchUp, "mend_receipts", then_others_report)
        steps = await here.use.read_history(POOL, "default", 0, 10)
    assert [step.receipt.step for step in steps] == [1, 2]
    assert [step.receipt.step for step in await here.use.read_history(POOL, "default", 0, 10)] == [1, 2, 3, 4]
