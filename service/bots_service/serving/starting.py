"""Starts the service on a socket that is open to callers once they can be answered."""

import contextlib
import ctypes
import ipaddress
import os
import signal
import socket
import struct
import sys
from typing import NoReturn

from bots_service.errors import BotsError
from bots_service.settings import Settings, unknown_variables
from bots_service.storage.sql.database import keys_exist, sql_url

BACKLOG = 2048
SO_ATTACH_FILTER = 26  # asm-generic/socket.h
DROP_ALL = struct.pack("HBBI", 0x06, 0, 0, 0)  # one instruction of a packet filter, "return 0": keep no byte


class CannotStartError(BotsError):
    """The service can't listen on the configured address, or may not."""


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, which raise SystemExit; requests that were sent are answered first.

    Raises CannotStartError; StorageUnavailableError: the database can't be opened, or another process has it.
    """
    for line in unknown_variables(os.environ):
        sys.stderr.write(f"bots: {line}\n")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, exit_gracefully)
    with reserve(settings) as listener:
        host, port = listener.getsockname()[:2]
        address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        where = sql_url(settings.sql_url).render_as_string(hide_password=True)
        said = f"BOTS listens on {address} (a page for browsers; documentation at /docs), data in {where}\n"
        from bots_service.serving.server import Config, DrainingServer  # not above: it loads all

        DrainingServer(Config(settings), when_serving=lambda: sys.stderr.write(said)).run([listener])


def exit_gracefully(number: int, _frame: object) -> NoReturn:
    """End the process, closing what is open on the way. The server raises the signal again once it has drained."""
    raise SystemExit(0 if number == signal.SIGTERM else 128 + number)


# --- the socket ------------------------------------------------------------------------------------------------------


def reserve(settings: Settings) -> socket.socket:
    """Return a socket that has its address; the kernel refuses connections to it until a process listens on it."""
    require_guarded(settings)
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
    """Let callers in, unless another service listened at the address first."""
    try:
        listener.listen(BACKLOG)
    except OSError as error:
        host, port = listener.getsockname()[:2]
        raise _cannot_listen(host, port, error) from error


def require_guarded(settings: Settings) -> None:
    """Raise CannotStartError if others may reach the service without a key, StorageUnavailableError: who knows?"""
    if settings.insecure or is_loopback(settings.host) or settings.admin_key is not None:
        return
    if not keys_exist(settings.sql_url):
        raise CannotStartError(
            f"{settings.host} is reachable from other machines, and the service requires no keys; "
            "set BOTS_ADMIN_KEY, listen on 127.0.0.1, or pass --insecure if your network protects it"
        )


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


def _cannot_listen(host: str, port: int, error: OSError) -> CannotStartError:
    return CannotStartError(f"can't listen on {host}:{port}: {error.strerror}; choose another --port")
