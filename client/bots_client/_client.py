"""`Client` and `AsyncClient`: every call of the service as a method."""

from bots_client._async_client_methods import AsyncClientMethods
from bots_client._client_methods import ClientMethods


class Client(ClientMethods):
    """A synchronous client of the BOTS selector, safe to share between threads.

        with Client() as bots:
            selection = bots.select("guru", 32)
            bots.report("guru", [Outcome.counts(id, solved[id], 16) for id in selection.ids], selection=selection)

    Args:
        url: http(s) URL of the service; None: BOTS_URL, or http://127.0.0.1:8000.
        api_key: None: BOTS_API_KEY, or no key.
        deadline_s: for each call with all its retries; some calls have their own.
        retries: number of attempts and waits between them.
        headers: sent with every request.
        transport: httpx transport; tests pass the service itself.
        sleep: replaced in tests.

    Raises:
        ValueError: the url or the key is invalid.
    """


class AsyncClient(AsyncClientMethods):
    """The same calls as `Client` for asyncio; iterate lists and streams with `async for`.

        async with AsyncClient() as bots:
            selection = await bots.select("guru", 32)

    Takes the arguments of `Client`, with an asynchronous `transport` and `sleep`.

    Raises:
        ValueError: the url or the key is invalid.
    """
