"""The verifier guard: rewards that turn wrong at once raise an alarm, and may be held out of the belief."""

from typing import Literal

# What somebody decides about held groups. It stands here, as the command line loads it without numpy.
Decision = Literal["release", "drop"]
