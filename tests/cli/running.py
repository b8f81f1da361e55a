"""The command line as a person runs it: in a process of its own."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from tests import forked
from tests.forked import COMMAND_S

BOTS = (sys.executable, "-m", "bots_service")


def clean_environment(**more):
    """The environment without your own BOTS settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BOTS_") and name != "NO_COLOR"}
    return {**kept, "TERM": "xterm-256color", "TZ": "UTC", **more}


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        """What it wrote, as one JSON document."""
        assert self.code == 0, self.err
        return json.loads(self.out)

    def assert_one_line(self, code):
        """It failed as it should: with this exit code, one line on stderr, and nothing on stdout."""
        assert (self.code, self.out) == (code, ""), self
        assert self.err.startswith("bots: "), self
        assert self.err.count("\n") == 1, self
        assert "Traceback" not in self.err
        return self.err


@dataclass(frozen=True)
class CommandLine:
    """Runs commands against one service, in one folder."""

    url: str
    folder: Path

    def __call__(self, *arguments, stdin="", within_s=COMMAND_S, **environment):
        environment = clean_environment(**{"BOTS_URL": self.url, **environment})
        return Done(*forked.run([*map(str, arguments)], self.folder, environment, stdin, within_s))

    def ok(self, *arguments, **more):
        """Run a command that succeeds and says nothing on stderr; return what it wrote."""
        done = self(*arguments, **more)
        assert (done.code, done.err) == (0, ""), done
        return done.out
