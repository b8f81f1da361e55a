"""PostgreSQL and Redis that speak TLS alone, with certificates of an authority of our own."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.servers import NOBODY, PostgresServer, RedisServer

DAYS = "2"
EXTENSIONS = "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n"


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority, with a certificate for 127.0.0.1, for servers and clients alike."""

    ca: Path
    certificate: Path
    key: Path


def authority(folder: Path) -> Authority:
    """Make an authority whose files lie in a folder."""
    made = Authority(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    ca_key, request, extensions = folder / "ca.key", folder / "server.csr", folder / "extensions"
    extensions.write_text(EXTENSIONS, "utf-8")
    new = ["req", "-newkey", "rsa:2048", "-nodes"]
    signed: list[str | Path] = [
        "-CA",
        made.ca,
        "-CAkey",
        ca_key,
        "-CAcreateserial",
        "-days",
        DAYS,
        "-extfile",
        extensions,
    ]
    commands: list[list[str | Path]] = [
        [*new, "-x509", "-days", DAYS, "-subj", "/CN=Tests", "-keyout", ca_key, "-out", made.ca],
        [*new, "-subj", "/CN=bots", "-keyout", made.key, "-out", request],
        ["x509", "-req", "-in", request, *signed, "-out", made.certificate],
    ]
    for arguments in commands:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)
    folder.chmod(0o755)
    return made


class TlsPostgres(PostgresServer):
    """A PostgreSQL that lets nobody in without TLS."""

    def __init__(self, files: Authority) -> None:
        """Make its data, and its copies of the files: it wants a key that others can't read."""
        super().__init__(ssl="on", ssl_cert_file="server.pem", ssl_key_file="server.key")
        self._files = files
        for file in (files.certificate, files.key):
            copy = self.data / file.name
            shutil.copyfile(file, copy)
            copy.chmod(0o600)
            if os.geteuid() == 0:
                os.chown(copy, NOBODY, NOBODY)
        (self.data / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 trust\n", "utf-8")

    def secured(self, url: str) -> str:
        """Return a URL for clients that trust the authority alone."""
        return f"{url}?sslmode=verify-full&sslrootcert={self._files.ca}"


class TlsRedis(RedisServer):
    """A Redis that lets nobody in without TLS and a certificate of the authority."""

    def __init__(self, files: Authority) -> None:
        """Prepare it."""
        super().__init__()
        self._files = files

    @property
    def bare_url(self) -> str:
        """Its URL, for a client that trusts the usual authorities."""
        return f"rediss://127.0.0.1:{self.port}/0"

    @property
    def url(self) -> str:
        """Its URL, for a client that trusts the authority alone and has a certificate."""
        files = self._files
        own = f"ssl_certfile={files.certificate}&ssl_keyfile={files.key}"
        return f"{self.bare_url}?ssl_ca_certs={files.ca}&{own}"

    def command(self) -> list[str]:
        """Return the command line."""
        files = self._files
        ports = ["--tls-port", str(self.port), "--port", "0", "--tls-ca-cert-file", str(files.ca)]
        return [*super().command(), *ports, "--tls-cert-file", str(files.certificate), "--tls-key-file", str(files.key)]
