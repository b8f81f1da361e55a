"""The header that names the run, so that a balancer can keep a run at one replica."""

from urllib.parse import unquote

import pytest

from tests.client.answers import RECEIPT, RUN, SELECTION
from tests.client.scripted_server import answer, drop, problem


def test_selects_and_reports_name_their_run(serve, connect):
    server = serve(answer(SELECTION), answer(RECEIPT), answer(SELECTION), answer(RECEIPT))
    bots = connect(server)

    bots.select("guru", 2)
    bots.report("guru", [])
    bots.select("guru", 2, run="r1")
    bots.report("guru", [], run="r1")

    named = [request.headers["bots-run"] for request in server.received]
    assert named == ["guru/default", "guru/default", "guru/r1", "guru/r1"]


def test_every_attempt_names_the_run(serve, connect):
    server = serve(drop, problem(503), answer(RECEIPT))

    connect(server).report("guru", [])

    assert [request.headers["bots-run"] for request in server.received] == ["guru/default"] * 3


def test_other_calls_name_no_run(serve, connect):
    server = serve(answer(RUN))

    connect(server).rewind("guru", 3)

    assert "bots-run" not in server.received[0].headers


@pytest.mark.parametrize("name", ["a/b", "a b", "ü", "a%2Fb", "a\r\nb", "", ".."])
def test_a_name_keeps_to_its_part_of_the_header_whatever_it_holds(serve, connect, name):
    server = serve(answer(SELECTION))

    connect(server).select(name, 2, run=name)

    (request,) = server.received
    assert [unquote(part) for part in request.headers["bots-run"].split("/")] == [name, name]
    assert (request.json["dataset"], request.json["run"]) == (name, name)


def test_half_a_character_is_left_for_the_service_to_refuse(serve, connect):
    server = serve(answer(SELECTION))

    connect(server).select("\ud800", 2)

    assert server.received[0].json["dataset"] == "\ud800"
