"""Writes that answer a retry under their idempotency key as they answered at first."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.responses import Response

from bots_service.api.bodies import Body
from bots_service.api.responses import REPLAYED
from bots_service.errors import ConflictError, KeyReusedError, NotFoundError
from bots_service.records import Answer
from bots_service.storage.sql.answers import SqlAnswers

Result = TypeVar("Result")


async def answered_once(
    answers: SqlAnswers,
    body: Body,
    kind: type[Result],
    act: Callable[[], Awaitable[Result]],
    respond: Callable[[Result], Response],
) -> Response:
    """Return the response to what the write came to when it happened: now, or before under the request's key.

    Args:
        answers: where first answers are kept.
        body: of the request.
        kind: the class of the result.
        act: does the work, and keeps its result under the key.
        respond: makes the response of the result.

    Raises:
        KeyReusedError: the key came with another request before.
    """
    first = await _first_answer(answers, body, kind)
    if first is None:
        try:
            return respond(await act())
        except (ConflictError, NotFoundError):
            # The same request may have been answered while this one was at work; what it deleted is not found then.
            first = await _first_answer(answers, body, kind)
            if first is None:
                raise
    response = respond(first.result)
    response.headers.update(REPLAYED)
    return response


async def _first_answer(answers: SqlAnswers, body: Body, kind: type[Result]) -> Answer[Result] | None:
    first = None if body.key is None else await answers.find(body.scope, body.key, kind)
    if first is None:
        return None
    key = await body.read_idempotency_key()
    if key is not None and key.fingerprint != first.fingerprint:
        raise KeyReusedError(f"idempotency key {key.key!r} was already used with a different request")
    return first
