"""The service itself: which one it is, and how it is."""

from bots_client._call import Call, path
from bots_client._decode import into, nothing
from bots_client._models import Version


def version() -> Call[Version]:
    """Say which version of the service answers, and on what it runs."""
    return Call("GET", path("version"), into(Version))


def is_ready() -> Call[None]:
    """Tell whether the service wants requests now, degraded or not; False also when it cannot be reached."""
    return Call("GET", path("readyz"), nothing, retried=False)


def is_live() -> Call[None]:
    """Tell whether the service's process answers; False also when it cannot be reached."""
    return Call("GET", path("livez"), nothing, retried=False)
