"""The two clients' I/O: connections, retries, pages and streams. `_exchange` holds the logic that they share."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, TypeVar

import httpx

from bots_client._call import Call, Pages, Reply
from bots_client._config import headers_of, is_loopback, trust_of, url_of
from bots_client._errors import ServiceError, UnreachableError
from bots_client._exchange import Exchange
from bots_client._retry import Retries
from bots_client._tables import AsyncListing, Listing

T = TypeVar("T")
BaseClientT = TypeVar("BaseClientT", bound="BaseClient")
BaseAsyncClientT = TypeVar("BaseAsyncClientT", bound="BaseAsyncClient")


class BaseClient:
    """The base of `Client`, which documents the arguments: sends calls."""

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        deadline_s: float = 10.0,
        retries: Retries = Retries(),  # noqa: B008 - a frozen value
        headers: Mapping[str, str] | None = None,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = url_of(url)
        self._deadline_s = deadline_s
        self._retries = retries
        self._sleep = sleep
        self._http = httpx.Client(
            base_url=self.url,
            headers=headers_of(api_key, headers),
            transport=transport,
            trust_env=not is_loopback(self.url),
            verify=trust_of(self.url),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(url={self.url!r})"

    def __enter__(self: BaseClientT) -> BaseClientT:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def send(self, call: Call[T]) -> T:
        """Send a call, with its retries, and return the parsed response.

        Raises:
            BotsClientError: the call failed; the subclass says how.
        """
        exchange = self._exchange(call)
        while True:
            try:
                with self._answer(exchange) as response:
                    reply = _collected(exchange, response)
            except httpx.RequestError as error:
                wait_s = exchange.after_failure(error)
            else:
                if reply.is_success:
                    return exchange.result(reply)
                wait_s = exchange.after_refusal(reply)
            self._sleep(wait_s)

    def _stream(self, call: Call[bytes]) -> Generator[bytes, None, None]:
        """Yield the response's body as it arrives."""
        exchange = self._exchange(call)
        while True:
            try:
                with self._answer(exchange) as response:
                    if response.is_success:
                        exchange.begin_to_deliver()
                        yield from response.iter_bytes()
                        return
                    reply = _collected(exchange, response)
            except httpx.RequestError as error:
                wait_s = exchange.after_failure(error)
            else:
                wait_s = exchange.after_refusal(reply)
            self._sleep(wait_s)

    def _paginate(self, pages: Pages[T]) -> Listing[T]:
        """Return the items of a list; each page is requested when it is needed."""
        return Listing(pages.kind, self._items(pages))

    def _items(self, pages: Pages[T]) -> Generator[T, None, None]:
        while pages.next_call is not None:
            yield from pages.take(self.send(pages.next_call))

    def _probe(self, call: Call[None]) -> bool:
        """Return whether a call succeeds now."""
        try:
            self.send(call)
        except (ServiceError, UnreachableError):
            return False
        return True

    def _exchange(self, call: Call[T]) -> Exchange[T]:
        return Exchange(call, url=self.url, retries=self._retries, deadline_s=self._deadline_s)

    @contextmanager
    def _answer(self, exchange: Exchange[Any]) -> Iterator[httpx.Response]:
        """Make one attempt; yield the response before its body is read."""
        response = self._http.send(self._http.build_request(**exchange.request()), stream=True)
        try:
            exchange.check_encoding(response.headers)
            yield response
        finally:
            response.close()


class BaseAsyncClient:
    """The base of `AsyncClient`, which documents the arguments: sends calls."""

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
            verify=trust_of(self.url),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(url={self.url!r})"

    async def __aenter__(self: BaseAsyncClientT) -> BaseAsyncClientT:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def send(self, call: Call[T]) -> T:
        """Send a call, with its retries, and return the parsed response.

        Raises:
            BotsClientError: the call failed; the subclass says how.
        """
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
            return await _collected_async(exchange, response)

    async def _stream(self, call: Call[bytes]) -> AsyncGenerator[bytes, None]:
        """Yield the response's body as it arrives."""
        exchange = self._exchange(call)
        while True:
            try:
                async with self._answer(exchange) as response:
                    if response.is_success:
                        exchange.begin_to_deliver()
                        async for chunk in response.aiter_bytes():
                            yield chunk
                        return
                    reply = await _collected_async(exchange, response)
            except httpx.RequestError as error:
                wait_s = exchange.after_failure(error)
            else:
                wait_s = exchange.after_refusal(reply)
            await self._sleep(wait_s)

    def _paginate(self, pages: Pages[T]) -> AsyncListing[T]:
        """Return the items of a list; each page is requested when it is needed."""
        return AsyncListing(pages.kind, self._items(pages))

    async def _items(self, pages: Pages[T]) -> AsyncGenerator[T, None]:
        while pages.next_call is not None:
            for item in pages.take(await self.send(pages.next_call)):
                yield item

    async def _probe(self, call: Call[None]) -> bool:
        """Return whether a call succeeds now."""
        try:
            await self.send(call)
        except (ServiceError, UnreachableError):
            return False
        return True

    def _exchange(self, call: Call[T]) -> Exchange[T]:
        return Exchange(call, url=self.url, retries=self._retries, deadline_s=self._deadline_s)

    @asynccontextmanager
    async def _answer(self, exchange: Exchange[Any]) -> AsyncIterator[httpx.Response]:
        """Make one attempt; yield the response before its body is read."""
        request = exchange.request()
        if isinstance(request["content"], Iterator):
            request["content"] = _read_in_threads(request["content"])
        response = await self._http.send(self._http.build_request(**request), stream=True)
        try:
            exchange.check_encoding(response.headers)
            yield response
        finally:
            await response.aclose()


def _collected(exchange: Exchange[Any], response: httpx.Response) -> Reply:
    """Return a response with its whole body."""
    body = bytearray()
    for chunk in response.iter_bytes():
        body += chunk
        exchange.check_received(len(body))
    return Reply(response.status_code, response.headers, bytes(body))


async def _collected_async(exchange: Exchange[Any], response: httpx.Response) -> Reply:
    """Return a response with its whole body."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        exchange.check_received(len(body))
    return Reply(response.status_code, response.headers, bytes(body))


async def _read_in_threads(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the chunks, read on threads so that a slow disk does not block the event loop."""
    while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
        yield chunk


async def _within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Await the work and return its result.

    Raises:
        TimeoutError: it takes longer.
    """
    if sys.version_info >= (3, 11):
        async with asyncio.timeout(seconds):  # novm - behind the check of the version
            return await work
    else:
        try:
            return await asyncio.wait_for(work, seconds)
        except asyncio.TimeoutError as error:  # another class than TimeoutError before 3.11
            raise TimeoutError from error
