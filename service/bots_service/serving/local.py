"""The service of one training job, which `bots_client` starts: it ends once no process of the job is left."""

import fcntl
import json
import os
import signal
import socket
import sys
from pathlib import Path
from threading import Thread

from bots_service.serving.server import Config, DrainingServer, exit_gracefully, reserve
from bots_service.settings import Settings


def main(file: str, address: int) -> None:
    """Serve a database file, and write where to a descriptor, which stays open: who starts this has locked it."""
    settings = Settings(port=0, database_url=f"sqlite:///{file}", log_level="warning")
    signal.signal(signal.SIGTERM, exit_gracefully)
    with reserve(settings) as listener, Path(f"{file}.users").open("rb") as users, os.fdopen(address, "w") as told:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        key = os.environ["BOTS_ADMIN_KEY"]
        said = {"host": socket.gethostname(), "url": url, "key": key, "page": f"{url}/#key={key}"}

        def end_unused() -> None:
            fcntl.flock(users, fcntl.LOCK_EX)  # each process of the job shares the lock
            os.kill(os.getpid(), signal.SIGTERM)

        def begin() -> None:
            print(json.dumps(said), file=told, flush=True)
            Thread(target=end_unused, daemon=True).start()

        DrainingServer(Config(settings), begin).run([listener])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
