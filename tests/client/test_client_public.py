"""What users see: names, signatures, where the service is looked for, and that a key never shows."""

import logging
from dataclasses import fields
from importlib.resources import files

import httpx
import pytest

import bots_client
from bots_client import BotsClientError, Client, GivenSettings, Retries, Settings
from bots_client._http import is_loopback
from tests.client.answers import VERSION
from tests.client.scripted_server import answer, drop, problem

SECRET = "sk-never-show-this"


def test_the_package_is_typed():
    assert files(bots_client).joinpath("py.typed").is_file()


def test_the_settings_that_can_be_given_are_those_that_are_answered():
    assert list(GivenSettings.__annotations__) == [field.name for field in fields(Settings)]


def test_the_service_is_looked_for_where_the_argument_or_the_environment_says(monkeypatch):
    with Client() as bots:
        assert bots.url == "http://127.0.0.1:8765"
    monkeypatch.setenv("BOTS_URL", "https://bots.example/base/")
    with Client() as named, Client("http://other:1") as given:
        assert named.url == "https://bots.example/base"
        assert given.url == "http://other:1"


@pytest.mark.parametrize(
    "url",
    ["localhost:8765", "ftp://host", "http://", "//host", "http://host:port", "http://h/?a=b", "http://h/#x", "bots"],
)
def test_a_url_that_is_none_is_refused(url):
    with pytest.raises(ValueError, match="url"):
        Client(url)


def test_a_password_in_the_url_is_refused_without_being_shown():
    with pytest.raises(ValueError, match="api_key=") as caught:
        Client(f"http://user:{SECRET}@host")
    assert SECRET not in str(caught.value)


def test_a_base_path_comes_before_every_path(serve, connect):
    server = serve(answer(VERSION))
    connect(f"{server.url}/team/bots/").version()
    assert server.received[0].target == "/team/bots/version"


@pytest.mark.parametrize("from_environment", [True, False])
def test_the_key_is_sent_with_every_request(serve, connect, monkeypatch, from_environment):
    server = serve(answer(VERSION))
    if from_environment:
        monkeypatch.setenv(
            "BOTS_API_KEY", f"{SECRET}\n"
        )  # as `BOTS_API_KEY=$(cat key)` would not, but a file mount does
    connect(server, **({} if from_environment else {"api_key": SECRET}), headers={"X-Team": "a"}).version()
    assert server.received[0].headers["authorization"] == f"Bearer {SECRET}"
    assert server.received[0].headers["x-team"] == "a"


@pytest.mark.parametrize("act", [drop, problem(401), problem(503), answer(b"nonsense")])
def test_the_key_never_shows(serve, connect, caplog, act):
    caplog.set_level(logging.DEBUG)
    bots = connect(serve(act), api_key=SECRET, retries=Retries(attempts=2, first_wait_s=0))
    with pytest.raises(BotsClientError) as caught:
        bots.version()
    shown = [repr(bots), repr(vars(bots)), str(caught.value), repr(caught.value), caplog.text]
    assert [text for text in shown if SECRET in text] == []


@pytest.mark.parametrize(
    "arguments", [{"api_key": f"{SECRET} x"}, {"api_key": f"{SECRET}\nx"}, {"headers": {"X": "é"}}]
)
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(arguments):
    with pytest.raises(ValueError, match=r"api_key|headers=") as caught:
        Client("http://127.0.0.1:1", **arguments)
    assert SECRET not in str(caught.value)


def test_a_transport_takes_the_place_of_the_network():
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=VERSION))
    with Client(transport=transport) as bots:
        assert bots.version().numpy == VERSION["numpy"]


def test_a_service_on_this_machine_is_asked_directly(serve, connect, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # nobody listens there
    server = serve(answer(VERSION))
    assert connect(server).version().version == VERSION["version"]


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("http://127.0.0.1:8765", False),
        ("http://[::1]:8765", False),
        ("http://localhost", False),
        ("http://10.0.0.7:8765", True),
        ("https://bots.example", True),
    ],
)
def test_only_loopback_goes_without_the_environments_proxies(url, wanted):
    assert is_loopback(url) is not wanted
