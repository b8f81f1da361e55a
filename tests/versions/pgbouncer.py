"""PgBouncer in front of a PostgreSQL."""

from typing import Any

from tests.server_binaries import debian_program
from tests.servers import PostgresServer, Server, can_connect, nobody

SETTINGS = """
[databases]
* = host=127.0.0.1 port={server} user=bots

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
admin_users = bots
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 500
server_login_retry = 1
"""


class PgBouncer(Server):
    """A PgBouncer."""

    def __init__(self, postgres: PostgresServer, *, mode: str = "transaction", size: int = 4) -> None:
        """Prepare it.

        Args:
            postgres: what it is in front of.
            mode: for how long a client gets a connection to the server.
            size: connections to each database; fewer than its clients have, so that they share them.
        """
        super().__init__()
        self._postgres = postgres
        self._settings = self.folder / "pgbouncer.ini"
        self._settings.write_text(SETTINGS.format(server=postgres.port, port=self.port, mode=mode, size=size), "utf-8")

    def through(self, url: str) -> str:
        """Return the URL of a database of the server, by way of the pooler."""
        return url.replace(f":{self._postgres.port}/", f":{self.port}/")

    def command(self) -> list[str]:
        """Return the command line."""
        return [debian_program("usr/sbin/pgbouncer"), str(self._settings)]

    def identity(self) -> dict[str, Any]:
        """Return nobody where the tests run as root, whom it refuses, too."""
        return nobody()

    def answers(self) -> bool:
        """Say whether the database behind it answers."""
        return can_connect(self.through(self._postgres.url()))
