"""The socket on which the service listens: reserved at once, open to callers once they can be answered."""

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
    """The service can't listen on the configured address."""


def reserve(settings: Settings) -> socket.socket:
    """Return a socket that has its address; the kernel refuses connections to it until a process listens on it.

    Raises:
        CannotListenError: the address is in use, or it is beyond loopback without keys and without --insecure.
        StorageUnavailableError: the database can't be asked for keys.
    """
    if not settings.insecure and not is_loopback(settings.host) and not is_guarded(settings):
        raise CannotListenError(
            f"{settings.host} is reachable from other machines, and the service requires no keys; "
            "set BOTS_ADMIN_KEY, listen on 127.0.0.1, or pass --insecure if your network protects it"
        )
    listener = socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET)
    try:
        # A restart must not wait for the connections of the process before it, which linger for a minute.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listener.family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise _cannot_listen(settings.host, settings.port, error) from error
    return listener


def listen(listener: socket.socket) -> None:
    """Let callers in. Several processes may do so on one socket.

    Raises:
        CannotListenError: another service listened at the address first.
    """
    try:
        listener.listen(BACKLOG)
    except OSError as error:
        host, port = listener.getsockname()[:2]
        raise _cannot_listen(host, port, error) from error


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
    from bots_service.storage.sql.url import keys_exist  # not above: what needs no answer needs none of its libraries

    return keys_exist(settings.sql_url)


def let_nobody_in(listener: socket.socket) -> None:
    """Make the kernel ignore new connections from now on; those that it has completed can still be accepted.

    Without this, a connection made between our last accept and our close would be completed and then reset. Now its
    client asks the kernel once more and is refused, so nothing that it sent is lost. Linux only; elsewhere that gap
    stays.
    """
    instructions = ctypes.create_string_buffer(DROP_ALL)
    with contextlib.suppress(OSError):
        listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(instructions)))


def is_loopback(host: str) -> bool:
    """Say whether only this machine can reach the address."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _cannot_listen(host: str, port: int, error: OSError) -> CannotListenError:
    return CannotListenError(f"can't listen on {host}:{port}: {error.strerror}; choose another --port")
