"""Decisions about held groups by the client, and the alarms that it reads."""

import json

from bots_client import Client
from tests.client.answers import RUN
from tests.client.scripted_server import answer

ALARM = {
    "tag": "code",
    "outcome": "failed",
    "since_step": 7,
    "last_step": 9,
    "groups": 24,
    "chance": 1e-12,
    "ongoing": False,
    "held": 20,
}


def test_alarms_are_read_in_full(serve, connect):
    (alarm,) = connect(serve(answer({**RUN, "alarms": [ALARM]}))).run("guru").alarms
    assert {name: getattr(alarm, name) for name in ALARM} == ALARM


def test_a_decision_is_sent_with_its_tag_if_there_is_one(serve, connect):
    server = serve(answer(RUN), answer(RUN))
    bots: Client = connect(server)
    bots.decide_held("guru", "drop", "r1", tag="code")
    bots.decide_held("guru", "release")
    first, second = server.received
    assert (first.method, first.target) == ("POST", "/datasets/guru/runs/r1/held")
    assert json.loads(first.body) == {"decision": "drop", "tag": "code"}
    assert json.loads(second.body) == {"decision": "release"}
