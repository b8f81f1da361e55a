"""How large the long tests are: `make soak` sets BOTS_SOAK=1, and they take minutes instead of seconds."""

import os
from typing import TypeVar

Size = TypeVar("Size", int, float)

SOAK = os.environ.get("BOTS_SOAK") == "1"


def size(short: Size, long: Size) -> Size:
    """Return a test's size: the short one, or the long one under `make soak`."""
    return long if SOAK else short
