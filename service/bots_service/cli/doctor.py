"""`bots doctor`: what the environment names, and whether it is fit."""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

import typer

from bots_service.cli.connection import AsJson, Url, connected
from bots_service.cli.failures import CommandError, client_line
from bots_service.cli.output import show
from bots_service.cli.service import settings_with

if TYPE_CHECKING:
    from rich.text import Text

    from bots_client import Client, Version
    from bots_service.doctor.finding import Finding

MOST_DATASETS, MOST_RUNS = 50, 20  # looked at: each is a request
STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}


def doctor(url: Url = None, as_json: AsJson = False) -> None:
    """Check the configuration, and say how to fix it; exit code 1 if there is a problem.

    Looks at the settings (BOTS_...), this machine, the database, Redis and, where --url or BOTS_URL names one, the
    service. It changes nothing, and is run where the service runs: with its environment, as its user.
    """
    settings = settings_with()
    from bots_service.doctor import examine
    from bots_service.doctor.finding import Grade

    findings = [*examine(settings), *(of_service(url) if url else ())]
    problems, warnings = (sum(each.grade is grade for each in findings) for grade in (Grade.PROBLEM, Grade.WARNING))
    found = {"problems": problems, "warnings": warnings, "checks": findings}
    show(found, lambda: lines(findings, problems=problems, warnings=warnings), as_json=as_json)
    if problems:
        raise typer.Exit(1)


def of_service(url: str) -> Iterator["Finding"]:
    """Yield whether a running service is ready, and how it differs from this program."""
    from bots_client import BotsClientError
    from bots_service.doctor.finding import ok, problem, warning

    try:
        with connected(url, attempts=1) as client:
            theirs = client.version()
            status, checks = readiness_of(client.url)
    except CommandError as error:
        yield problem("service", str(error), "")
    except BotsClientError as error:
        if error.status in (401, 403):  # nothing is known to be wrong
            yield warning("service", client_line(error), "")
        else:
            yield problem("service", client_line(error), "is that the service? --url and BOTS_URL say where it is")
    else:
        yield from compared(theirs, where=client.url)
        wrong = [f"{part}: {said}" for part, said in checks.items() if said != "ok"]
        if status == "ready":
            yield ok("service readiness", "it can do its work now")
        else:
            said = f"it is {status} ({'; '.join(wrong) or 'no part is wrong'})"
            yield problem("service readiness", said, "docs/operations.md says what goes on without each part")
        try:
            with connected(url, attempts=1) as client:
                yield from of_runs(client)
        except BotsClientError as error:
            yield warning("runs", client_line(error), "")


def readiness_of(url: str) -> tuple[str, dict[str, str]]:
    """Return what /readyz says: the status, and what each part said last."""
    import httpx

    try:
        answer = httpx.get(f"{url.rstrip('/')}/readyz", timeout=5).json()
        return answer["status"], answer["checks"]
    except (httpx.HTTPError, LookupError, TypeError, ValueError):  # a balancer that keeps probes to itself, say
        return "unknown: /readyz does not answer", {}


def of_runs(client: "Client") -> Iterator["Finding"]:
    """Yield what the service advises about its runs; of a run that has not begun only where it is the only one."""
    from bots_service.doctor.finding import warning

    for dataset in islice(client.datasets(), MOST_DATASETS):
        runs = list(islice(client.runs(dataset.name), MOST_RUNS))
        for run in runs:
            if run.step or len(runs) == 1:
                for text in run.advice:
                    yield warning(f"run {dataset.name}/{run.run}", text.removesuffix("."), "")


def compared(theirs: "Version", *, where: str) -> Iterator["Finding"]:
    """Yield how a running service differs from this program."""
    import numpy as np

    from bots_service import __version__
    from bots_service.doctor.finding import ok, warning
    from bots_service.storage.sql.migrate import head

    if (theirs.version, theirs.schema) == (__version__, head()):
        yield ok("service", f"version {theirs.version} at {where}, as this program")
    else:
        said = f"version {theirs.version} with tables {theirs.schema} at {where}; here {__version__} with {head()}"
        yield warning("service", said, "run one version everywhere")
    if theirs.numpy != np.__version__:
        said = f"numpy {theirs.numpy} there, {np.__version__} here"
        yield warning("service draws", said, "install one version: equal seeds draw equal tasks on equal versions only")


def lines(findings: list["Finding"], *, problems: int, warnings: int) -> "Text":
    """Return a line for each finding, and one that sums up."""
    from rich.text import Text

    widest = max(len(each.about) for each in findings)
    made = Text()
    for each in findings:
        made.append(f"{each.grade:<9}", STYLES[each.grade])
        made.append(f"{each.about:<{widest}}  {each.said}" + (f"; {each.advice}" if each.advice else "") + "\n")
    return made.append(f"{told(problems, 'problem')}, {told(warnings, 'warning')}")


def told(count: int, what: str) -> str:
    """Return a count of things, to read."""
    return f"{count or 'no'} {what}" + ("" if count == 1 else "s")
