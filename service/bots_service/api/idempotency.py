"""Writes whose first answer is kept under their idempotency key."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.responses import Response

from bots_service.api.answers import body_response
from bots_service.api.bodies import Body, NoBody
from bots_service.errors import ConflictError, KeyReusedError
from bots_service.ports.catalog import Answers
from bots_service.ports.records import KeptAnswer

Row = TypeVar("Row")


def kept(scope: str, body: Body | NoBody, render: Callable[[Row], tuple[int, bytes]]) -> KeptAnswer[Row] | None:
    """Return what keeps a write's answer, once the body was read; None without a key."""
    once = body.once()
    return None if once is None else KeptAnswer(scope, once, render)


async def answered_once(
    answers: Answers, scope: str, body: Body | NoBody, act: Callable[[], Awaitable[Response]]
) -> Response:
    """Return the first answer to the request's key again, else that of `act`.

    Args:
        answers: where first answers are kept.
        scope: what the key is good for, as in "DELETE /datasets/guru".
        body: of the request.
        act: does the work and keeps its answer.

    Raises:
        KeyReusedError: the key came with another request before.
    """
    first = await _first_answer(answers, scope, body)
    if first is not None:
        return first
    try:
        return await act()
    except ConflictError:
        # The same request may have been answered while this one was at work.
        first = await _first_answer(answers, scope, body)
        if first is None:
            raise
        return first


async def _first_answer(answers: Answers, scope: str, body: Body | NoBody) -> Response | None:
    answer = None if body.key is None else await answers.find(scope, body.key)
    if answer is None:
        return None
    once = await body.once_read()
    if once is None or answer.fingerprint != once.fingerprint:
        raise KeyReusedError(f"idempotency key {body.key!r} came with another request before")
    return body_response(answer.status, answer.body, replayed=True)
