"""The verifier guard by the command line: shown, released, dropped."""

import pytest

from bots_client import Outcome, Task, VerifierAlarm

COUNT = 12


@pytest.fixture
def pool(client, request):
    """A dataset whose run saw an outage of its verifier."""
    name = f"guarded-{abs(hash(request.node.name))}"
    client.create_dataset(name, [Task(f"t{number}", tags=["math"]) for number in range(COUNT)])
    client.update_run(name, verifier_guard=True)
    for successes in (4, 4, 4, 4, 0):
        client.report(name, [Outcome.counts(f"t{number}", successes, 8) for number in range(COUNT)])
    return name


def test_an_alarm_is_shown_and_its_groups_are_released(bots, client, pool):
    alarm = f"failed since step 5 ({COUNT} groups, {COUNT} held)"
    shown = " ".join(bots.ok("runs", "show", pool).split())
    assert f"all rollouts {alarm}; all rollouts of math {alarm}" in shown
    assert "held groups of run default" in bots.ok("runs", "held", pool, "release", "--tag", "math")
    (whole,) = client.run(pool).alarms
    assert isinstance(whole, VerifierAlarm)
    assert whole.tag is None
    assert bots("runs", "held", pool, "drop", "--json").json["alarms"] == []
    refused = bots("runs", "held", pool, "drop")
    assert (refused.code, "no alarm" in refused.err) == (1, True)


def test_an_alarm_that_is_over_names_its_steps(bots, client, pool):
    client.report(pool, [Outcome.counts(f"t{number}", 4, 8) for number in range(COUNT)])
    assert f"failed from step 5 to 5 ({COUNT} groups, {COUNT} held)" in " ".join(bots.ok("runs", "show", pool).split())
    assert "never count" in bots.ok("runs", "held", pool, "drop")
    kinds = bots("journal", pool, "--kind", "guard_decision", "--json").json
    assert "drop" in str(kinds)


def test_the_setting_is_an_option(bots, client, pool):
    bots.ok("runs", "set", pool, "--no-verifier-guard")
    assert client.run(pool).settings.verifier_guard is False
    bots.ok("runs", "create", pool, "other", "--verifier-guard")
    assert client.run(pool, "other").settings.verifier_guard is True
