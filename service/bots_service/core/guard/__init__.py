"""The verifier guard: rewards that turn wrong at once raise an alarm, and may be held out of the belief."""

from typing import Literal

Decision = Literal["release", "drop"]  # about held groups: the rewards were right, or they were wrong
