"""Does another machine's clock agree with ours?"""

from bots_service.doctor.finding import Finding, ok, warning

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
        return warning(
            about, f"its clock and ours are {apart_s:.1f} s apart", "run a time service (NTP) on both machines"
        )
    return ok(about, "its clock agrees with ours")
