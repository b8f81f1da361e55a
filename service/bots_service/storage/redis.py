"""What replicas share, in Redis: one script a call, each written so that running it twice does what once does."""

import asyncio
import hashlib
import random
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import numpy as np
import structlog
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    RedisError,
    ResponseError,
)

from bots_service.core.arrays import NO_TASKS, Tasks, frozen, is_first, united, without
from bots_service.core.codec import decode_state, encode_state, pack, unpack
from bots_service.errors import DamagedStateError, StorageUnavailableError
from bots_service.records import IdempotencyKey, LeaseTtls, RunRow, Selection
from bots_service.retention import IDLE_RUNS_S, NONCES_S, PROBES_S, SELECTIONS_S
from bots_service.storage.live import ORDINALS, KeptState, Live, Look, Previous, Version, newly_leased, version_of

log = structlog.get_logger(__name__)

CONNECTIONS = 32  # scripts take Redis about 0.1 ms each, so more connections would only wait there
PROBE_S = 0.25
PROBE_KEY = "bots:probe"
MIN_VERSION = (6, 2)  # ZMSCORE
FAILURES = (TimeoutError, OSError, RedisError, RuntimeError)  # RuntimeError: uvloop's, if the server stops meanwhile
# For a command inside a script Redis answers a plain error, not NOPERM: that of 6.2 and 7.0, and that of 8.0.
NO_PERMISSION_IN_SCRIPT = ("can't run this command", "ACL failure in script")
RIGHTS = "ACL SETUSER NAME ~bots:* +@all -@dangerous +info"
FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_AT = struct.Struct("<d")  # when a kept state's last entry was appended
MOST_SELECTION_BYTES = 4 * 2**20  # a selection of 65 536 tasks takes half of it; a larger one is not kept
SCRIPTS = ("look", "lease", "leases", "moved", "delete", "state", "dataset", "probe")


class RedisAwayError(Exception):
    """Redis did not answer, or refused; the script may have run."""


class RedisServer:
    """A process's connections to Redis.

    A script is run once more after a lost answer. If that fails too, Redis counts as away: nothing is sent until a
    probe that writes a key succeeds. So a hanging Redis costs two timeouts, not one a request.
    """

    def __init__(self, url: str, *, timeout_s: float) -> None:
        """Create it; nothing is sent yet. timeout_s: longest wait for one answer.

        Raises StorageUnavailableError: the URL is not a Redis URL, or names a file that is not there.
        """
        self._timeout_s = timeout_s
        self._client = _client_of(url, timeout_s)
        self._scripts = {name: self._client.register_script(source_of(name)) for name in SCRIPTS}
        self._free = asyncio.Semaphore(CONNECTIONS)  # a blocking pool takes half as long again
        self._probing: asyncio.Task[None] | None = None

    @property
    def is_away(self) -> bool:
        """Whether Redis failed, and has not answered a probe since."""
        return self._probing is not None

    async def open(self) -> None:
        """Check that Redis is usable; if it does not answer, it counts as away and is probed.

        Raises StorageUnavailableError: Redis refuses this user or a command, is too old, or the URL is invalid.
        """
        try:
            await self.info()
        except StorageUnavailableError as error:
            cause = error.__cause__
            if not isinstance(cause, FAILURES) or refusal(cause) is not None:
                raise
            self._mark_away(cause)

    async def info(self) -> dict[str, str]:
        """Return Redis's INFO, after a test write.

        Raises StorageUnavailableError: it does not answer, refuses this user or a command, is too old, or the URL is
        invalid.
        """
        try:
            text = await self._once("probe", [PROBE_KEY], [int(PROBES_S)])
        except FAILURES as error:
            reason = refusal(error) or f"the Redis of BOTS_REDIS_URL: {type(error).__name__}: {error}"
            raise StorageUnavailableError(reason) from error
        except (TypeError, ValueError) as error:
            raise StorageUnavailableError("BOTS_REDIS_URL has an unknown option") from error
        lines = (line.partition(":") for line in text.decode(errors="replace").splitlines())
        info = {name: value for name, separator, value in lines if separator}
        version = info["redis_version"]
        if tuple(map(int, version.split(".")[:2])) < MIN_VERSION:
            raise StorageUnavailableError(f"the Redis in BOTS_REDIS_URL is version {version}; at least 6.2 is needed")
        return info

    async def run(self, script: str, keys: list[str], *arguments: object, blob: bytes = b"") -> Any:
        """Return a script's answer. Raises RedisAwayError: Redis is away."""
        if self.is_away:
            raise RedisAwayError
        try:
            try:
                return await self._once(script, keys, arguments, blob)
            except ResponseError:  # a refusal, which would only repeat
                raise
            except FAILURES:
                if self.is_away:
                    raise
                # Pooled connections broke for the same reason.
                await self._client.connection_pool.disconnect(inuse_connections=False)
                return await self._once(script, keys, arguments, blob)
        except FAILURES as error:
            self._mark_away(error)
            raise RedisAwayError from error

    async def close(self) -> None:
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)
        await self._client.aclose()

    async def _once(self, script: str, keys: list[str], arguments: Sequence[object], blob: bytes = b"") -> Any:
        called, given = self._scripts[script], [msgspec.msgpack.encode(arguments), blob]
        # Not the client's own timeout: before Python 3.12 that can swallow a cancellation.
        async with asyncio.timeout(self._timeout_s), self._free:
            try:
                return await self._client.evalsha(called.sha, len(keys), *keys, *given)
            except NoScriptError:
                return await called(keys, given)

    def _mark_away(self, error: BaseException) -> None:
        if not self.is_away:
            log.warning("redis_away", reason=f"{type(error).__name__}: {error}")
            # Without the context of the failed request: the probe's log lines are not about that request.
            self._probing = asyncio.create_task(self._probe_until_back(), context=Context())

    async def _probe_until_back(self) -> None:
        while True:
            await asyncio.sleep(PROBE_S)
            try:
                await self._once("probe", [PROBE_KEY], [int(PROBES_S)])
            except FAILURES as error:
                log.debug("redis_still_away", reason=f"{type(error).__name__}: {error}")
            else:
                break
        self._probing = None
        log.warning("redis_back")


def source_of(script: str) -> str:
    """Return a Lua script, after the functions that all scripts share."""
    folder = files("bots_service.storage") / "scripts"
    return "\n".join((folder / f"{part}.lua").read_text() for part in ("common", script))


def _client_of(url: str, timeout_s: float) -> Redis:
    """Return a client that never retries by itself: it would count writes twice."""
    try:
        for option, value in parse_qsl(urlsplit(url).query):
            if option in FILES and not Path(value).is_file():
                raise StorageUnavailableError(f"{option} in BOTS_REDIS_URL names no file: {value}")
        pool = ConnectionPool.from_url(
            url,
            max_connections=CONNECTIONS,
            socket_timeout=None,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
        )
    except ValueError:
        # Without its cause, which may contain a part of the password.
        message = "BOTS_REDIS_URL is not a Redis URL, such as redis://user:password@host:6379/0"
        raise StorageUnavailableError(message) from None
    return Redis.from_pool(pool)


def refusal(error: BaseException) -> str | None:
    """Return what the operator has to fix; None if the failure may be temporary."""
    if isinstance(error, AuthenticationError):
        return f"Redis rejects the user and password in BOTS_REDIS_URL: {error}"
    if isinstance(error, NoPermissionError) or any(words in str(error) for words in NO_PERMISSION_IN_SCRIPT):
        return f"the Redis user in BOTS_REDIS_URL needs more rights, {RIGHTS}: {error}"
    if isinstance(error, MovedError) or "unknown command 'evalsha'" in str(error).lower():
        return "BOTS_REDIS_URL must name one Redis that has all keys: no cluster, no Sentinel"
    if "certificate verify failed" in str(error).lower():
        return f"the certificate of Redis is not trusted: name its CA, ?ssl_ca_certs=FILE in BOTS_REDIS_URL: {error}"
    return None


class RedisLive(Live):
    """The store of live data for many replicas.

    While Redis is away, tasks are leased in this process's memory: other replicas may select the same ones, and every
    answer says `degraded`. Those leases stay here until they end.
    """

    is_shared = True

    def __init__(self, server: RedisServer, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Keep live data in a Redis. clock: monotonic seconds, of the leases made while it is away."""
        super().__init__(is_exact=False, clock=clock)
        self._server = server

    async def look(self, run: RunRow, version: Version, key: str | None, *, lease_s: float, selects: int = 1) -> Look:
        mine = await super().look(run, version, key, lease_s=lease_s)
        if mine.previous is not None:
            return mine
        keys = [*_keys(run), _dataset(run.dataset_id)]
        try:
            reply = await self._server.run("look", keys if key is None else [*keys, _selection(run, key)], selects)
        except RedisAwayError:
            return mine
        epoch, seq, ordinal, lost_ms, now_ms, leases, dataset_version, kept = reply
        is_lost = int(lost_ms) > 0 and int(now_ms) - int(lost_ms) < lease_s * 1000
        leased = np.sort(np.fromstring(leases, np.int32, sep=" "))
        return Look(
            head=None if epoch < 0 else (epoch, seq),
            dataset_version=None if dataset_version is None else int(dataset_version),
            ordinal=ordinal,
            leased=frozen(united(leased, mine.leased) if len(mine.leased) else leased),
            degraded=is_lost,
            previous=None if kept is None or kept[0] != max(epoch, version[0]) else _previous_in(kept[1], run),
            more=selects - 1,
        )

    async def lease(
        self, run: RunRow, selection: Selection, look: Look, once: IdempotencyKey | None, *, lease_s: float
    ) -> Previous | bool:
        """Lease a selection's tasks, all or none, and keep it under the request's key."""
        if look.local:
            return await super().lease(run, selection, look, once, lease_s=lease_s)
        blob = b"" if once is None else pack(Previous(once.fingerprint, selection))
        if len(blob) > MOST_SELECTION_BYTES:
            once, blob = None, b""
        nonce, tasks, new = f"{random.getrandbits(64):x}", selection.leased, newly_leased(selection, look)
        kept_s = NONCES_S if once is None else SELECTIONS_S
        try:
            status, *bytes_ = await self._server.run(
                "lease",
                [*_keys(run), _selection(run, nonce if once is None else once.key)],
                nonce,
                *version_of(selection),
                int(lease_s * 1000),
                int(kept_s * 1000),
                int(IDLE_RUNS_S),
                new.tolist(),
                without(tasks, new).tolist(),
                blob=blob,
            )
        except RedisAwayError:
            return False
        if status == b"previous":
            # One that can't be read counts for nothing, and this one is not kept.
            return _previous_in(bytes_[0], run) or await self.lease(run, selection, look, None, lease_s=lease_s)
        return bool(status == b"leased")

    async def moved(
        self, run: RunRow, head: Version, *, done: Tasks = NO_TASKS, kept: KeptState | None = None, begins: bool = False
    ) -> int | None:
        """Tell where a run stands now, and end leases; return how many are left, None if replicas may not see it."""
        await super().moved(run, head, done=done)
        epoch, seq, blob = -1, -1, b""
        if kept is not None and not self._server.is_away:
            epoch, seq = version_of(kept.state)
            blob = _AT.pack(kept.at) + await asyncio.to_thread(encode_state, kept.state)
        begin = 0 if begins else 1 + random.randrange(ORDINALS), int(IDLE_RUNS_S)  # noqa: S311 - no secret
        try:
            return await self._server.run(  # type: ignore[no-any-return]
                "moved", _keys(run), *head, *begin, epoch, seq, done.tolist(), blob=blob
            )
        except RedisAwayError:
            return None

    async def state(self, run: RunRow) -> KeptState | None:
        """Return the state of a run that was kept last for replicas; None if there is none."""
        try:
            blob = await self._server.run("state", _keys(run))
            if blob is None:
                return None
            (at,) = _AT.unpack_from(blob)
            return KeptState(await asyncio.to_thread(decode_state, blob[_AT.size :]), at)
        except RedisAwayError:
            return None
        except DamagedStateError as error:
            log.error("kept_state_damaged", run=run.name, reason=str(error))
            return None

    async def leases(self, run: RunRow) -> LeaseTtls:
        """Return the tasks in flight, and when the lease of each ends."""
        mine = await super().leases(run)
        try:
            now_ms, leases = await self._server.run("leases", _keys(run))
        except RedisAwayError:
            return mine
        tasks, ends = np.array(leases[::2], np.int32), np.array(leases[1::2], np.float64)
        # A task that is leased here and there ends with the later of both.
        tasks = np.concatenate([tasks, mine.tasks])
        ttl_s = np.concatenate([(ends - float(now_ms)) / 1000, mine.ttl_s])
        order = np.lexsort((-ttl_s, tasks))
        order = order[is_first(tasks[order])]
        return LeaseTtls(frozen(tasks[order]), frozen(ttl_s[order]))

    async def delete(self, run: RunRow) -> None:
        """Delete all that is kept of a run, so that every process looks for it in SQL."""
        await super().delete(run)
        await self._told("delete", _keys(run))

    async def dataset_changed(self, dataset_id: int, version: int) -> None:
        await self._told("dataset", [_dataset(dataset_id)], version, int(IDLE_RUNS_S))

    async def _told(self, script: str, keys: list[str], *arguments: object) -> None:
        """Tell Redis, if it hears. Else leases end by themselves, and replicas look into SQL each second."""
        with suppress(RedisAwayError):
            await self._server.run(script, keys, *arguments)

    async def check(self) -> None:
        """Return if Redis answers.

        Raises StorageUnavailableError: Redis does not answer, or has not answered a probe since it last failed.
        """
        if self._server.is_away:
            raise StorageUnavailableError("Redis does not answer")
        await self._server.info()


def _keys(run: RunRow) -> list[str]:
    return [f"bots:{run.uid}:run", f"bots:{run.uid}:leases"]


def _selection(run: RunRow, key: str) -> str:
    return f"bots:{run.uid}:selection:{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}"


def _dataset(dataset_id: int) -> str:
    return f"bots:dataset:{dataset_id}"


def _previous_in(blob: bytes, run: RunRow) -> Previous | None:
    """Return a kept selection; None if it can't be read, as if it had not been kept."""
    try:
        return unpack(blob, Previous)
    except DamagedStateError as error:
        log.error("kept_selection_damaged", run=run.name, reason=str(error))
        return None
