"""The names that a request is about, for its log lines and its trace: never a key that was mistaken for a name."""

import re
from collections.abc import Mapping

import structlog
from starlette.requests import Request

from bots_service.api.parameters import use_cases_of
from bots_service.spans import tell_request

LONGEST_NAME = 128  # a refused request may name anything
WHOLE_KEY = re.compile("(bots_[0-9a-f]+_)[0-9a-f]+", re.IGNORECASE)  # put where its id belongs
TOLD = ("dataset", "run")


def without_key(request: Request, name: str) -> str:
    """Return a name as it may be told."""
    if use_cases_of(request).authenticate.is_operators(name):
        return "*"
    return WHOLE_KEY.sub(r"\1*", name)[:LONGEST_NAME]


def tell_names(request: Request, names: Mapping[str, str]) -> None:
    """Put the dataset and the run, where they are named, on everything that is told of this request from now on."""
    told = {name: without_key(request, names[name]) for name in TOLD if name in names}
    if told:
        structlog.contextvars.bind_contextvars(**told)
        tell_request(told)
