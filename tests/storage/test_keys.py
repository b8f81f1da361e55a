"""API keys as stores keep them."""

import time
from dataclasses import replace

import pytest

from bots_service.errors import (
    BusyError,
    LimitReachedError,
    UnauthenticatedError,
    UnknownApiKeyError,
)
from bots_service.keys import KeyRow, Scope
from bots_service.records import Answer
from bots_service.storage.sql import stores as module
from bots_service.storage.sql.stores import SqlStores
from tests.storage.made import once

NOW = 1_800_000_000.25


def key(number: int = 0) -> KeyRow:
    """A key with everything that a key can have."""
    return KeyRow(
        id=f"{number:016x}",
        name=f"trainer {number} ü",
        digest=bytes([number]) * 32,
        scopes=frozenset({Scope.SELECT, Scope.REPORT}),
        datasets=("guru*", "b.?"),
        created_at=NOW + number,
        expires_at=NOW + 60,
    )


async def test_keys_come_back_as_they_were_in_pages_by_id_and_only_so_many_are_in_use(
    stores: SqlStores, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "MOST_KEYS", 3)
    keys = stores.keys
    plain = replace(key(1), scopes=frozenset({Scope.ADMIN}), datasets=("*",), expires_at=None)
    assert await keys.in_use() is None
    assert await keys.add(None, key(2), first=True) == key(2)
    for other in (key(0), plain):
        await keys.add(None, other, first=False)
    assert await keys.after("", 2) == [key(0), plain]
    assert await keys.after(plain.id, 2) == [key(2)]
    assert sorted(await keys.in_use() or [], key=lambda row: row.id) == [key(0), plain, key(2)]
    with pytest.raises(LimitReachedError, match="3 keys exist"):
        await keys.add(None, key(3), first=False)
    await keys.revoke(None, plain.id)
    await keys.add(None, key(3), first=False)
    assert sorted(row.id for row in await keys.in_use() or []) == [key(0).id, key(2).id, key(3).id]


async def test_a_revoked_key_is_listed_and_not_in_use_and_counts_as_having_existed(stores: SqlStores):
    keys = stores.keys
    with pytest.raises(UnknownApiKeyError, match="no key"):
        await keys.revoke(None, key(0).id)
    await keys.add(None, key(0), first=True)
    await keys.revoke(None, key(0).id)
    revoked = await keys.after("", 10)
    await keys.revoke(None, key(0).id)  # changes nothing
    assert await keys.in_use() == []
    assert await keys.after("", 10) == revoked == [replace(key(0), revoked_at=revoked[0].revoked_at)]
    assert revoked[0].revoked_at == pytest.approx(time.time(), abs=60)
    with pytest.raises(UnauthenticatedError):
        await keys.add(None, key(1), first=True)


async def test_the_answer_to_a_change_of_keys_is_kept_with_it(stores: SqlStores):
    keys = stores.keys
    await keys.add(once("k"), key(0), first=True)
    with pytest.raises(BusyError):
        await keys.add(once("k"), key(1), first=False)
    assert await keys.after("", 10) == [key(0)]
    assert await stores.answers.find("PUT /it", "k", KeyRow) == Answer("same", key(0))
