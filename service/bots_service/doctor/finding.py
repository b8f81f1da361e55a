"""One thing that was looked at; and whether another machine's clock agrees."""

from dataclasses import dataclass
from enum import StrEnum


class Grade(StrEnum):
    """How a thing was found."""

    OK = "ok"
    WARNING = "warning"
    """The service works, but worse, or not for long."""
    PROBLEM = "problem"
    """The service does not start, or can't keep what it promises."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found, in a line that never holds a password.

    about: what was looked at, in a word or two.
    advice: what to do about it; empty where there is nothing to do.
    """

    about: str
    grade: Grade
    said: str
    advice: str = ""


def ok(about: str, said: str) -> Finding:
    """Return that a thing is as it should be."""
    return Finding(about, Grade.OK, said)


def warning(about: str, said: str, advice: str) -> Finding:
    """Return that a thing could be better."""
    return Finding(about, Grade.WARNING, said, advice)


def problem(about: str, said: str, advice: str) -> Finding:
    """Return that a thing must be mended."""
    return Finding(about, Grade.PROBLEM, said, advice)


def without_secrets(error: Exception, *secrets: str | None) -> str:
    """Return what an error says, in one line and without the secrets."""
    line = " ".join(str(error).split()) or type(error).__name__
    for secret in filter(None, secrets):
        line = line.replace(secret, "***")
    return line


TOLERATED_S = 2.0  # leases last minutes; what people read in a history should still be in order


def compare(about: str, theirs: float, *, before: float, after: float) -> Finding:
    """Judge a clock.

    Args:
        about: whose it is.
        theirs: what it said, in seconds since 1970.
        before: our time just before it was asked.
        after: our time just after it answered.
    """
    apart_s = max(before - theirs, theirs - after, 0.0)
    if apart_s > TOLERATED_S:
        return warning(about, f"its clock and this machine's differ by {apart_s:.1f} s", "run NTP on both machines")
    return ok(about, "its clock agrees with this machine's")
