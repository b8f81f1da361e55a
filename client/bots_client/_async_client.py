"""`AsyncClient`: the service for programs that run on asyncio."""

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, TypeVar

import httpx

from bots_client._call import Call, Pages, Reply
from bots_client._calls import admin_calls, dataset_calls, run_calls, step_calls
from bots_client._config import headers_of, is_loopback, url_of
from bots_client._errors import ServiceError, UnreachableError
from bots_client._exchange import Exchange
from bots_client._methods import method
from bots_client._retry import Retries

T = TypeVar("T")
ClientT = TypeVar("ClientT", bound="AsyncClient")


class AsyncClient:
    """The same calls as `Client`, to be awaited; lists and streams are gone through with `async for`.

        async with AsyncClient() as bots:
            selection = await bots.select("guru", 32)

    Its arguments are those of `Client`, but for an asynchronous `transport` and `sleep`.

    Raises:
        ValueError: the url or the key cannot be used.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        deadline_s: float = 10.0,
        retries: Retries = Retries(),  # noqa: B008 - a frozen value
        headers: Mapping[str, str] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.url = url_of(url)
        self._deadline_s = deadline_s
        self._retries = retries
        self._sleep = sleep
        self._http = httpx.AsyncClient(
            base_url=self.url,
            headers=headers_of(api_key, headers),
            transport=transport,
            trust_env=not is_loopback(self.url),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(url={self.url!r})"

    async def __aenter__(self: ClientT) -> ClientT:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _send(self, call: Call[T]) -> T:
        """Return what the service answered."""
        exchange = self._exchange(call)
        while True:
            try:
                reply = await _within(exchange.deadline.left_s(), self._reply(exchange))
            except (httpx.RequestError, TimeoutError) as error:
                wait_s = exchange.after_failure(error)
            else:
                if reply.is_success:
                    return exchange.result(reply)
                wait_s = exchange.after_refusal(reply)
            await self._sleep(wait_s)

    async def _reply(self, exchange: Exchange[T]) -> Reply:
        async with self._answer(exchange) as response:
            return Reply(response.status_code, response.headers, await response.aread())

    async def _stream(self, call: Call[bytes]) -> AsyncGenerator[bytes, None]:
        """Yield the answer as it arrives."""
        exchange = self._exchange(call)
        while True:
            try:
                async with self._answer(exchange) as response:
                    if response.is_success:
                        exchange.begin_to_deliver()
                        async for chunk in response.aiter_bytes():
                            yield chunk
                        return
                    reply = Reply(response.status_code, response.headers, await response.aread())
            except httpx.RequestError as error:
                wait_s = exchange.after_failure(error)
            else:
                wait_s = exchange.after_refusal(reply)
            await self._sleep(wait_s)

    async def _each(self, pages: Pages[T]) -> AsyncGenerator[T, None]:
        """Yield the items of a list, asking for each page when it is needed."""
        while pages.next_call is not None:
            for item in pages.take(await self._send(pages.next_call)):
                yield item

    async def _probe(self, call: Call[None]) -> bool:
        """Return whether a call succeeds now."""
        try:
            await self._send(call)
        except (ServiceError, UnreachableError):
            return False
        return True

    def _exchange(self, call: Call[T]) -> Exchange[T]:
        return Exchange(call, url=self.url, retries=self._retries, deadline_s=self._deadline_s)

    @asynccontextmanager
    async def _answer(self, exchange: Exchange[Any]) -> AsyncIterator[httpx.Response]:
        """Make one attempt; gives the answer with its body still to come."""
        request = exchange.request()
        if isinstance(request["content"], Iterator):
            request["content"] = _read_in_threads(request["content"])
        response = await self._http.send(self._http.build_request(**request), stream=True)
        try:
            yield response
        finally:
            await response.aclose()

    create_dataset = method(dataset_calls.create_dataset, _send)
    upload_dataset = method(dataset_calls.upload_dataset, _send)
    upload_tasks = method(dataset_calls.upload_tasks, _send)
    append_tasks = method(dataset_calls.append_tasks, _send)
    retire_tasks = method(dataset_calls.retire_tasks, _send)
    dataset = method(dataset_calls.dataset, _send)
    datasets = method(dataset_calls.datasets, _each)
    delete_dataset = method(dataset_calls.delete_dataset, _send)

    create_run = method(run_calls.create_run, _send)
    update_run = method(run_calls.update_run, _send)
    run = method(run_calls.run, _send)
    runs = method(run_calls.runs, _each)
    delete_run = method(run_calls.delete_run, _send)
    tasks = method(run_calls.tasks, _each)
    count_tasks = method(run_calls.count_tasks, _send)
    tasks_arrow = method(run_calls.tasks_arrow, _stream)
    history = method(run_calls.history, _each)
    journal = method(run_calls.journal, _each)
    leases = method(run_calls.leases, _send)
    rewind = method(run_calls.rewind, _send)
    snapshot = method(run_calls.snapshot, _send)
    snapshots = method(run_calls.snapshots, _each)
    curve = method(run_calls.curve, _send)
    calibration = method(run_calls.calibration, _send)
    outlooks = method(run_calls.outlooks, _send)

    select = method(step_calls.select, _send)
    report = method(step_calls.report, _send)

    export_dataset = method(admin_calls.export_dataset, _stream)
    import_backup = method(admin_calls.import_backup, _send)
    prune = method(admin_calls.prune, _send)

    create_key = method(admin_calls.create_key, _send)
    keys = method(admin_calls.keys, _each)
    revoke_key = method(admin_calls.revoke_key, _send)
    whoami = method(admin_calls.whoami, _send)

    version = method(admin_calls.version, _send)
    is_ready = method(admin_calls.is_ready, _probe)
    is_live = method(admin_calls.is_live, _probe)


async def _read_in_threads(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the chunks; a disk that is slow must not hold up the event loop."""
    while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
        yield chunk


async def _within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Return what the work returns.

    Raises:
        TimeoutError: it takes longer than this.
    """
    if sys.version_info >= (3, 11):
        async with asyncio.timeout(seconds):  # novm - behind the check of the version
            return await work
    else:
        try:
            return await asyncio.wait_for(work, seconds)
        except asyncio.TimeoutError as error:  # another class than TimeoutError before 3.11
            raise TimeoutError from error
