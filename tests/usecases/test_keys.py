"""Who is let in: keys made, known, expired, revoked, here and on other replicas, with SQL and without."""

import hashlib
import hmac

import pytest
from structlog.testing import capture_logs

from bots_service import errors
from bots_service.access import ANYBODY, OPERATOR, REFRESH_S, Access, Caller, KeyRequest, digest_of
from bots_service.keys import KeyRow, Scope
from bots_service.storage.sql.stores import SqlKeys
from tests.usecases.world import World, until

ADMIN = KeyRequest("root", frozenset({Scope.ADMIN}), ("*",))
READER = KeyRequest("reader", frozenset({Scope.READ}), ("guru*",))
NOBODYS = f"bots_{'0' * 16}_{'0' * 64}"


class CountedKeys(SqlKeys):
    """Keys in SQL, with a count of how often all are read."""

    looks = 0

    async def in_use(self) -> list[KeyRow] | None:
        self.looks += 1
        return await super().in_use()


class Process(Access):
    """What one process knows of the keys in a world's database, at a time that a test sets."""

    def __init__(self, world: World, *, admin_key: str | None = None, every_s: float = 3600.0) -> None:
        self.now, self.keys = 1000.0, CountedKeys(world.database)
        digest = None if admin_key is None else digest_of(admin_key)
        super().__init__(self.keys, digest)
        self._every_s, self._monotonic, self._clock = every_s, self.time, self.time

    def time(self) -> float:
        return self.now

    async def make(self, wish: KeyRequest, *, by_anybody: bool = False) -> tuple[KeyRow, str]:
        return await self.create(wish, None, by_anybody=by_anybody)

    async def refuses(self, key: str | None) -> bool:
        try:
            await self.authenticate(key)
        except errors.UnauthenticatedError:
            return True
        return False


@pytest.fixture
async def open_service(empty: World) -> Process:
    """A process over a database without keys."""
    process = Process(empty)
    await process.load()
    return process


@pytest.fixture
async def process(open_service: Process) -> Process:
    """A process that a first key guards."""
    await open_service.make(ADMIN, by_anybody=True)
    return open_service


async def test_nobody_is_let_in_before_it_is_known_whether_there_are_keys(empty):
    process = Process(empty)
    assert not process.is_open
    assert await process.refuses(None)
    assert process.keys.looks == 0


async def test_without_keys_everybody_may_do_everything_whatever_they_send(open_service):
    for key in (None, "", "nonsense", NOBODYS):
        assert await open_service.authenticate(key) == ANYBODY


async def test_the_first_key_must_be_able_to_make_others_for_ever(open_service, empty):
    for wish in (
        KeyRequest("first", frozenset({Scope.READ, Scope.SELECT, Scope.REPORT}), ("*",)),
        KeyRequest("first", ADMIN.scopes, ("guru*",)),
        KeyRequest("first", ADMIN.scopes, ("*",), expires_in_seconds=60.0),
    ):
        with pytest.raises(errors.InvalidInputError, match="nobody could make another"):
            await open_service.make(wish, by_anybody=True)
    assert empty.sql("SELECT count(*) FROM api_keys") == [(0,)]
    assert open_service.is_open


async def test_the_first_key_closes_the_service_at_once(open_service, empty):
    late = Process(empty)
    row, key = await open_service.make(ADMIN, by_anybody=True)
    assert not open_service.is_open
    assert await open_service.refuses(None)
    for process in (open_service, late):  # one that was made elsewhere works at once, too
        assert await process.authenticate(key) == Caller(row.id, ADMIN.scopes, ("*",), ADMIN.name, None)
        assert await process.keys.after("", 10) == [row]
    assert open_service.keys.looks == 1
    with pytest.raises(errors.UnauthenticatedError, match="requires an API key now"):
        await late.make(ADMIN, by_anybody=True)
    assert empty.sql("SELECT count(*) FROM api_keys") == [(1,)]


async def test_only_the_digest_of_a_key_is_kept(process, empty):
    row, key = await process.make(READER)
    ((kept,),) = empty.sql("SELECT digest FROM api_keys WHERE id = ?", row.id)
    assert kept == hashlib.sha256(key.encode()).digest()
    files = [path.read_bytes() for path in empty.folder.iterdir() if path.is_file()]
    assert not [content for content in files if key.encode() in content or key[-64:].encode() in content]
    assert key not in repr(row)
    assert repr(kept) not in repr(row)
    assert kept.hex() not in repr(row)


async def test_a_key_that_is_not_quite_right_is_refused(process):
    row, key = await process.make(READER)
    other_end = "0" if key[-1] != "0" else "1"
    wrong = [
        None,
        "",
        " ",
        "bots",
        row.id,
        key[:-1],
        key + "0",
        key[:-1] + other_end,
        key.upper(),
        f" {key}",
        f"{key}\n",
    ]
    wrong += [f"bots_{row.id}_{'0' * 64}", key.replace("bots", "boots"), "ü" * 86, "x" * 10_000]
    assert [text for text in wrong if not await process.refuses(text)] == []
    assert (await process.authenticate(key)).key == row.id


async def test_a_stranger_costs_one_look_into_sql_a_second_at_most(process):
    looks = process.keys.looks
    for key in (None, "", "nonsense", "bots_1_2", NOBODYS + "0", NOBODYS[:-1] + "g"):
        process.now += 10
        assert await process.refuses(key)
    assert process.keys.looks == looks
    for tenths in range(30):
        process.now = 2000.0 + tenths * 0.125
        assert await process.refuses(f"bots_{tenths:016x}_{'0' * 64}")
    assert process.keys.looks - looks == 4  # at 0, 1, 2 and 3 s


async def test_every_answer_compares_in_constant_time(process, monkeypatch):
    row, key = await process.make(READER)
    compared: list[int] = []
    compare = hmac.compare_digest

    def spied(one: bytes, other: bytes) -> bool:
        compared.append(len(other))
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", spied)
    for presented in (key, f"bots_{row.id}_{'0' * 64}", NOBODYS, "nonsense"):
        await process.refuses(presented)
    assert compared == [32, 32, 32, 32]


async def test_a_key_expires_to_the_second(process):
    _, key = await process.make(KeyRequest("brief", READER.scopes, READER.datasets, expires_in_seconds=60.0))
    process.now += 59.5
    assert not await process.refuses(key)
    process.now += 0.5
    assert await process.refuses(key)


async def test_a_revoked_key_is_refused_at_once_and_revoking_all_opens_nothing(process, empty):
    row, key = await process.make(READER)
    ((first,),) = empty.sql("SELECT id FROM api_keys WHERE name = 'root'")
    await process.revoke(row.id, None)
    await process.revoke(first, None)
    assert await process.refuses(key)
    assert await process.refuses(None)
    later = Process(empty)
    await later.load()
    assert not later.is_open
    assert await later.refuses(key)
    with pytest.raises(errors.UnknownApiKeyError, match="no key"):
        await process.revoke("f" * 16, None)


async def test_keys_made_and_revoked_elsewhere_are_known_here_within_five_seconds(open_service, empty):
    replica = Process(empty, every_s=0.01)
    async with replica.in_background():
        assert replica.is_open
        row, key = await open_service.make(ADMIN, by_anybody=True)

        async def is_closed() -> bool:
            return not replica.is_open

        await until(is_closed)
        assert (await replica.authenticate(key)).key == row.id
        await open_service.revoke(row.id, None)

        async def is_refused() -> bool:
            return await replica.refuses(key)

        await until(is_refused)
    assert 2 * REFRESH_S < 5  # a whole pause between two looks, and as long for a slow one


async def test_while_sql_is_away_the_last_known_keys_go_on(process, empty):
    row, key = await process.make(READER)
    replica = Process(empty, every_s=0.001)
    with capture_logs() as said:
        async with replica.in_background():
            await empty.database.close()
            looks = replica.keys.looks

            async def looked_often() -> bool:
                return replica.keys.looks > looks + 5

            await until(looked_often)
            assert (await replica.authenticate(key)).key == row.id
            assert await replica.refuses(NOBODYS)
            assert await replica.refuses(None)
    assert [line["event"] for line in said if line["log_level"] == "warning"] == ["keys_not_refreshed"]
    with pytest.raises(errors.StorageUnavailableError):
        async with replica.in_background():
            pass


async def test_the_operators_key_opens_everything_and_closes_the_service(empty):
    process = Process(empty, admin_key="operator's own key")
    await process.load()
    assert not process.is_open
    assert await process.authenticate("operator's own key") == OPERATOR
    assert await process.refuses(None)
    assert await process.refuses("operator's own kex")
    assert process.is_operators("operator's own key")
    assert not process.is_operators("operator's own kex")
    row, key = await process.make(READER)
    assert (await process.authenticate(key)).key == row.id


@pytest.mark.parametrize(
    ("patterns", "reached", "not_reached"),
    [
        (("*",), ["guru", "a"], []),
        (("guru*",), ["guru", "guru-2"], ["gur", "Guru", "my-guru"]),
        (("a?c", "b.d"), ["abc", "b.d"], ["ac", "abbc", "bxd", "a?"]),
    ],
)
def test_a_pattern_reaches_the_names_that_it_fits(patterns, reached, not_reached):
    caller = Caller("k", frozenset({Scope.READ}), patterns)
    assert [name for name in [*reached, *not_reached] if caller.reaches(name)] == reached
    for name in reached:
        caller.require_dataset(name)
    for name in not_reached:
        with pytest.raises(errors.ForbiddenError, match="has no access to dataset"):
            caller.require_dataset(name)


def test_a_caller_is_told_what_its_key_lacks():
    caller = Caller("k", frozenset({Scope.READ}), ("guru/alice-*",))
    caller.require_run("guru", "alice-1")
    caller.require_scope(frozenset({Scope.READ, Scope.SELECT}))
    OPERATOR.require_scope(frozenset({Scope.SELECT}))
    OPERATOR.require_every_dataset()
    with pytest.raises(errors.ForbiddenError, match="no scope report or select, only read"):
        caller.require_scope(frozenset({Scope.SELECT, Scope.REPORT}))
    for run, of in (("bob-1", "run 'bob-1' of dataset 'guru'"), (None, "all of dataset 'guru'")):
        with pytest.raises(errors.ForbiddenError, match=f"no access to {of}, only to guru/alice-"):
            caller.require_run("guru", run)
    for patterns in (("?*", "a*"), ("guru",)):
        with pytest.raises(errors.ForbiddenError, match="every dataset"):
            Caller("k", frozenset({Scope.ADMIN}), patterns).require_every_dataset()


async def test_a_list_of_datasets_holds_only_those_that_the_caller_reaches(empty, monkeypatch):
    monkeypatch.setattr("bots_service.runs.BATCH", 2)
    for name in ("a-1", "b-1", "b-2", "b-3", "a-2", "c", "a-3", "d"):
        await empty.import_pool(name)
    mine = Caller("k", frozenset({Scope.READ}), ("a-*", "d"))

    async def listed(caller: Caller, after: str, limit: int) -> list[str]:
        return [row.name for row in await empty.runs.datasets_reached(caller, after, limit)]

    assert await listed(mine, "", 10) == ["a-1", "a-2", "a-3", "d"]
    assert await listed(mine, "", 4) == ["a-1", "a-2", "a-3", "d"]
    assert await listed(mine, "", 3) == ["a-1", "a-2", "a-3"]
    assert await listed(mine, "a-3", 3) == ["d"]
    assert await listed(mine, "d", 3) == []
    assert await listed(Caller("k", frozenset({Scope.READ}), ("nothing",)), "", 3) == []
    assert await listed(ANYBODY, "b-3", 2) == ["c", "d"]
