"""Writes whose first answer is kept under their idempotency key."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.responses import Response

from bots_service.api.bodies import Body, NoBody
from bots_service.api.responses import body_response
from bots_service.errors import ConflictError, KeyReusedError
from bots_service.ports.catalog import Answers
from bots_service.ports.records import Answer, IdempotencyKey, KeptAnswer

Row = TypeVar("Row")


def kept(scope: str, body: Body | NoBody, render: Callable[[Row], tuple[int, bytes]]) -> KeptAnswer[Row] | None:
    """Return what keeps a write's answer, once the body was read; None without a key."""
    key = body.idempotency_key()
    return None if key is None else KeptAnswer(scope, key, render)


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


async def kept_after(
    answers: Answers, scope: str, body: Body | NoBody, status: int, answer: bytes, *, replayed: bool = False
) -> Response:
    """Return the answer to a write that did not keep it in its own transaction, once it is kept.

    For writes that change nothing when they come again: a crash before this costs the caller nothing.

    Args:
        answers, scope, body: as for `answered_once`.
        status, answer: what to answer, unless another answer was kept meanwhile.
        replayed: the write happened before.

    Raises:
        KeyReusedError: the key came with another request meanwhile.
    """
    key = body.idempotency_key()
    if key is None:
        return body_response(status, answer)
    first = await answers.keep(scope, key.key, Answer(key.fingerprint, status, answer))
    require_same(first, key)
    return body_response(first.status, first.body, replayed=replayed or (first.status, first.body) != (status, answer))


async def _first_answer(answers: Answers, scope: str, body: Body | NoBody) -> Response | None:
    answer = None if body.key is None else await answers.find(scope, body.key)
    if answer is None:
        return None
    key = await body.read_idempotency_key()
    if key is not None:
        require_same(answer, key)
    return body_response(answer.status, answer.body, replayed=True)


def require_same(first: Answer, key: IdempotencyKey) -> None:
    """Check that a kept answer is that of this request.

    Raises:
        KeyReusedError: it is another's.
    """
    if first.fingerprint != key.fingerprint:
        raise KeyReusedError(f"idempotency key {key.key!r} was already used with a different request")
