"""The socket on which the service listens."""

import contextlib
import ctypes
import ipaddress
import socket
import struct

from bots_service.errors import BotsError
from bots_service.settings import Settings

BACKLOG = 2048
SO_ATTACH_FILTER = 26  # asm-generic/socket.h
DROP_ALL = struct.pack("HBBI", 0x06, 0, 0, 0)  # one instruction of a packet filter, "return 0": keep no byte


class CannotListenError(BotsError):
    """The service can't listen where it was told to."""


def listen(settings: Settings) -> socket.socket:
    """Return a listening socket.

    Raises:
        CannotListenError: the address is taken, or beyond loopback without keys and without being told so.
        StorageUnavailableError: the database can't be asked for keys.
    """
    if not settings.insecure and not is_loopback(settings.host) and not is_guarded(settings):
        raise CannotListenError(
            f"{settings.host} can be reached from other machines, and no keys guard the service; "
            "set BOTS_ADMIN_KEY, listen on 127.0.0.1, or say --insecure if your network guards it"
        )
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as error:
        message = f"can't listen on {settings.host}:{settings.port}: {error.strerror}; choose another --port"
        raise CannotListenError(message) from error


def address_of(listener: socket.socket) -> str:
    """Return the URL at which the service is reached."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_guarded(settings: Settings) -> bool:
    """Say whether the service will answer nobody without a key.

    Raises:
        StorageUnavailableError: the database can't be asked for keys.
    """
    if settings.admin_key is not None:
        return True
    from bots_service.storage.key_check import keys_exist  # not above: what needs no answer needs none of its libraries

    return keys_exist(settings.sql_url)


def let_nobody_in(listener: socket.socket) -> None:
    """Make the kernel ignore whoever wants to connect from now on; those whom it has let in can still be accepted.

    Without this, who connects between our last accept and our close would be let in and then reset. They ask the
    kernel once more, and it refuses them then: nothing that they sent is lost. Linux only; elsewhere that gap stays.
    """
    instructions = ctypes.create_string_buffer(DROP_ALL)
    with contextlib.suppress(OSError):
        listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(instructions)))


def is_loopback(host: str) -> bool:
    """Say whether only this machine can reach the address."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
