"""`Client` and `AsyncClient`: every call of the service as a method."""

from bots_client._async_client_methods import AsyncClientMethods
from bots_client._client_methods import ClientMethods


class Client(ClientMethods):
    """A connection to the BOTS selector for programs that call and wait. Threads can share it.

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


class AsyncClient(AsyncClientMethods):
    """The same calls as `Client`, to be awaited; lists and streams are gone through with `async for`.

        async with AsyncClient() as bots:
            selection = await bots.select("guru", 32)

    Its arguments are those of `Client`, but for an asynchronous `transport` and `sleep`.

    Raises:
        ValueError: the url or the key cannot be used.
    """
