"""Trainers in other languages say and do at a live service what the Python client's did when it was recorded."""

from itertools import groupby

from bots_client import Client, Outcome
from tests.languages.conftest import ADMIN_KEY
from tests.languages.recording import (
    KILLED_DURING,
    RESUMED_FROM,
    STEPS,
    begin,
    determined,
    go_through_the_course,
    recorded,
    solved,
)
from tests.languages.recording_proxy import RecordingProxy

ROLLOUTS_PER_STEP = 8 * 16


def test_the_recording_is_what_the_python_client_does_today(bots):
    with RecordingProxy(bots.url) as proxy, Client(proxy.url, api_key=ADMIN_KEY) as client:
        go_through_the_course(client)
    assert [
        determined(exchange) for exchange in proxy.exchanges
    ] == recorded()  # else record anew, and look what changed


def test_a_trainer_that_is_killed_and_goes_on_has_the_100_recorded_exchanges(program, bots):
    def kill_once(exchanges):
        if exchanges == KILLED_DURING:
            program.kill()

    with RecordingProxy(bots.url, on_exchange=kill_once) as proxy:
        code, output, _ = program.run(proxy.url, steps=STEPS)
        assert (code, len(proxy.exchanges)) == (-9, KILLED_DURING)
        assert program.checkpoint.read_text("utf-8").replace(" ", "").strip() == f'{{"step":{RESUMED_FROM}}}'
        code, output, errors = program.run(proxy.url, steps=STEPS)
    assert code == 0, errors
    assert [determined(exchange) for exchange in proxy.exchanges] == recorded()
    steps = range(RESUMED_FROM + 1, STEPS + 1)
    assert [line.split(":")[0] for line in output.splitlines()[:-1]] == [f"step {step}" for step in steps]
    assert output.splitlines()[-1] == f"{STEPS * ROLLOUTS_PER_STEP} rollouts in {STEPS} steps"


def test_every_report_counts_once_although_replies_are_lost(program, bots):
    steps = 4

    def lose_every_fourth(exchanges):
        if exchanges % 4 == 0:
            raise ConnectionResetError

    with RecordingProxy(bots.url, on_exchange=lose_every_fourth) as proxy:
        code, _, errors = program.run(proxy.url, steps=steps)
    assert code == 0, errors
    attempts = [list(tries) for _, tries in groupby(proxy.exchanges, key=lambda each: (each.key, each.path))]
    tried_twice = [tries[0].path for tries in attempts if len(tries) == 2]
    assert tried_twice == ["/report", "/select", "/report"]
    assert all(before.body == after.body for before, after in (tries for tries in attempts if len(tries) == 2))
    wanted = recorded()[: len(attempts) - 1]
    assert [determined(tries[0]) for tries in attempts[:-1]] == wanted
    run = bots.run("levels")
    assert (run.seq, run.step, run.totals.rollouts) == (steps, steps, steps * ROLLOUTS_PER_STEP)
    outcomes = [outcome for exchange in wanted for outcome in exchange["body"].get("outcomes", ())]
    assert run.totals.successes == sum(outcome["successes"] for outcome in outcomes)


def test_a_trainer_without_checkpoint_leaves_a_run_alone_that_has_learned_something(program, bots):
    begin(bots)
    bots.report("levels", [Outcome.counts("level-1", solved(20, 1), 16)])
    with RecordingProxy(bots.url) as proxy:
        code, _, errors = program.run(proxy.url, steps=2)
    assert code == 1
    assert [exchange.status for exchange in proxy.exchanges] == [200, 409]  # a no is not asked twice
    assert proxy.exchanges[-1].answer["detail"] in errors.replace('\\"', '"')
    assert not program.checkpoint.exists()
