"""What answers tell of costs."""

from tests.client.answers import HISTORY_STEP, RECEIPT, RUN, page
from tests.client.scripted_server import answer

COSTS = {"tokens": 9000.0, "seconds": 4.5}


def test_costs_of_receipt_step_and_run_are_read(serve, connect):
    receipt = connect(serve(answer(RECEIPT | COSTS))).report("guru", [])
    (step,) = connect(serve(answer(page("history", HISTORY_STEP | COSTS)))).history("guru")
    totals = connect(serve(answer(RUN | {"totals": RUN["totals"] | COSTS}))).run("guru").totals
    assert [(one.tokens, one.seconds) for one in (receipt, step, totals)] == [(9000.0, 4.5)] * 3
