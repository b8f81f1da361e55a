"""API keys through the client: read in full, and never shown by accident."""

from datetime import UTC, datetime

from tests.client.answers import API_KEY, NEW_API_KEY, WHOAMI, page
from tests.client.scripted_server import answer


def test_a_new_key_is_read_in_full_and_not_in_its_representation(serve, connect):
    made = connect(serve(answer(NEW_API_KEY, 201))).create_key("trainer 7", scopes=["select"], datasets=["guru*"])

    assert made.key == "bots_0123456789abcdef_secret"
    assert (made.id, made.scopes, made.datasets) == ("0123456789abcdef", ("report", "select"), ("guru*",))
    assert made.expires_at == datetime(2026, 2, 2, 3, 4, 5, tzinfo=UTC)
    assert "secret" not in repr(made)


def test_a_key_whose_answer_was_lost_comes_without_what_makes_it_one(serve, connect):
    made = connect(serve(answer({**NEW_API_KEY, "key": None}, 201))).create_key("k", scopes=["read"], datasets=["*"])

    assert made.key is None


def test_keys_are_listed_without_what_makes_them_keys(serve, connect):
    (found,) = connect(serve(answer(page("keys", API_KEY)))).keys()

    assert (found.name, found.revoked_at) == ("trainer 7", None)
    assert not hasattr(found, "key")


def test_the_caller_is_read_in_full(serve, connect):
    caller = connect(serve(answer({**WHOAMI, "expires_at": API_KEY["expires_at"]}))).whoami()

    assert (caller.guarded, caller.name, caller.datasets) == (True, "trainer 7", ("guru*",))
    assert caller.scopes == ("report", "select")
    assert caller.expires_at == datetime(2026, 2, 2, 3, 4, 5, tzinfo=UTC)
