"""How hard random tests try: BOTS_TEST_PROFILE is `default`, `ci` (the same examples each time) or `thorough`."""

import os

from hypothesis import HealthCheck, settings

# No deadline: on a busy machine a slow example says nothing about the code.
settings.register_profile("default", deadline=None, print_blob=True)
settings.register_profile("ci", parent=settings.get_profile("default"), derandomize=True)
settings.register_profile(
    "thorough",
    parent=settings.get_profile("default"),
    max_examples=2000,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("BOTS_TEST_PROFILE", "default"))
