"""`Client`: the service for programs that call and wait, on any number of threads."""

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
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
ClientT = TypeVar("ClientT", bound="Client")


class Client:
    """A connection to the BOTS selector; safe to share between threads.

        with Client() as bots:
            selection = bots.select("guru", 32)
            bots.report("guru", [Outcome.counts(id, solved[id], 16) for id in selection.ids], selection=selection)

    Args:
        url: of the service, http or https; None: BOTS_URL, else http://127.0.0.1:8000.
        api_key: None: BOTS_API_KEY, else no key.
        deadline_s: for each call with all its retries, unless the call says otherwise.
        retries: how often and after which waits a call is tried again.
        headers: sent with every request.
        transport: what carries the requests; tests put the service itself here.
        sleep: replaced in tests.

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
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(url={self.url!r})"

    def __enter__(self: ClientT) -> ClientT:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _send(self, call: Call[T]) -> T:
        """Return what the service answered."""
        exchange = self._exchange(call)
        while True:
            try:
                with self._answer(exchange) as response:
                    reply = Reply(response.status_code, response.headers, exchange.collect(response.iter_bytes()))
            except httpx.RequestError as error:
                wait_s = exchange.after_failure(error)
            else:
                if reply.is_success:
                    return exchange.result(reply)
                wait_s = exchange.after_refusal(reply)
            self._sleep(wait_s)

    def _stream(self, call: Call[bytes]) -> Generator[bytes, None, None]:
        """Yield the answer as it arrives."""
        exchange = self._exchange(call)
        while True:
            try:
                with self._answer(exchange) as response:
                    if response.is_success:
                        exchange.begin_to_deliver()
                        yield from response.iter_bytes()
                        return
                    reply = Reply(response.status_code, response.headers, exchange.collect(response.iter_bytes()))
            except httpx.RequestError as error:
                wait_s = exchange.after_failure(error)
            else:
                wait_s = exchange.after_refusal(reply)
            self._sleep(wait_s)

    def _each(self, pages: Pages[T]) -> Generator[T, None, None]:
        """Yield the items of a list, asking for each page when it is needed."""
        while pages.next_call is not None:
            yield from pages.take(self._send(pages.next_call))

    def _probe(self, call: Call[None]) -> bool:
        """Return whether a call succeeds now."""
        try:
            self._send(call)
        except (ServiceError, UnreachableError):
            return False
        return True

    def _exchange(self, call: Call[T]) -> Exchange[T]:
        return Exchange(call, url=self.url, retries=self._retries, deadline_s=self._deadline_s)

    @contextmanager
    def _answer(self, exchange: Exchange[Any]) -> Iterator[httpx.Response]:
        """Make one attempt; gives the answer with its body still to come."""
        response = self._http.send(self._http.build_request(**exchange.request()), stream=True)
        try:
            yield response
        finally:
            response.close()

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
