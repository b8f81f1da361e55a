"""How large the long tests are, and how many examples random ones try.

`make soak` sets SOAK=1, and the long ones take minutes instead of seconds. TEST_PROFILE is `default`, `ci` or
`thorough`. Under `ci` a random test draws the same examples each time: to try many again and again finds little.
"""

import os
from typing import TypeVar

Size = TypeVar("Size", int, float)

PROFILE = os.environ.get("TEST_PROFILE", "default")
SOAK = os.environ.get("SOAK") == "1"


def size(short: Size, long: Size) -> Size:
    """Return a test's size: the short one, or the long one under `make soak`."""
    return long if SOAK else short


def examples(usual: int) -> int:
    """Return how many examples a random test tries: as usual, or a quarter under the profile `ci`."""
    return usual // 4 if PROFILE == "ci" else usual
