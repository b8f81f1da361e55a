"""`bots doctor`: check the configuration and everything it names."""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

import typer

from bots_service.cli.connection import AsJson, Url, connected
from bots_service.cli.failures import CommandError, client_message
from bots_service.cli.output import show
from bots_service.cli.service import settings_with

if TYPE_CHECKING:
    from rich.text import Text

    from bots_client import Client, Version
    from bots_service.doctor.finding import Finding

MAX_DATASETS, MAX_RUNS = 50, 20  # checked: each costs a request
STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}


def doctor(url: Url = None, as_json: AsJson = False) -> None:
    """Check the configuration and suggest fixes; exit code 1 if there is a problem.

    Checks the settings (BOTS_...), this machine, the database and Redis; with --url or BOTS_URL also the service.
    It changes nothing. Run it where the service runs, with the same environment and as the same user.
    """
    settings = settings_with()
    from bots_service.doctor import examine
    from bots_service.doctor.finding import Grade

    findings = [*examine(settings), *(service_findings(url) if url else ())]
    problems, warnings = (sum(each.grade is grade for each in findings) for grade in (Grade.PROBLEM, Grade.WARNING))
    found = {"problems": problems, "warnings": warnings, "checks": findings}
    show(found, lambda: lines(findings, problems=problems, warnings=warnings), as_json=as_json)
    if problems:
        raise typer.Exit(1)


def service_findings(url: str) -> Iterator["Finding"]:
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
        if error.status in (401, 403):  # the key is wrong; the service may be fine
            yield warning("service", client_message(error), "")
        else:
            yield problem(
                "service", client_message(error), "check the address in --url or BOTS_URL: is it a BOTS service?"
            )
    else:
        yield from version_findings(theirs, where=client.url)
        failed = [f"{part}: {result}" for part, result in checks.items() if result != "ok"]
        if status == "ready":
            yield ok("service readiness", "ready")
        else:
            found = f"{status} ({'; '.join(failed) or 'no check failed'})"
            yield problem("service readiness", found, "see docs/operations.md for what works without each part")
        try:
            with connected(url, attempts=1) as client:
                yield from run_findings(client)
        except BotsClientError as error:
            yield warning("runs", client_message(error), "")


def readiness_of(url: str) -> tuple[str, dict[str, str]]:
    """Return the status from /readyz, and the last result of each check."""
    import httpx

    try:
        answer = httpx.get(f"{url.rstrip('/')}/readyz", timeout=5).json()
        return answer["status"], answer["checks"]
    except (httpx.HTTPError, LookupError, TypeError, ValueError):  # e.g. a load balancer that blocks probes
        return "unknown: /readyz does not answer", {}


def run_findings(client: "Client") -> Iterator["Finding"]:
    """Yield the service's advice on its runs; a run without steps counts only if it is its dataset's only run."""
    from bots_service.doctor.finding import warning

    for dataset in islice(client.datasets(), MAX_DATASETS):
        runs = list(islice(client.runs(dataset.name), MAX_RUNS))
        for run in runs:
            if run.step or len(runs) == 1:
                for text in run.advice:
                    yield warning(f"run {dataset.name}/{run.run}", text.removesuffix("."), "")


def version_findings(theirs: "Version", *, where: str) -> Iterator["Finding"]:
    """Yield how the versions of a running service differ from those of this program."""
    import numpy as np

    from bots_service import __version__
    from bots_service.doctor.finding import ok, warning
    from bots_service.storage.sql.migrate import head

    if (theirs.version, theirs.schema) == (__version__, head()):
        yield ok("service", f"version {theirs.version} at {where}, the same as this program")
    else:
        found = f"version {theirs.version} with tables {theirs.schema} at {where}; here {__version__} with {head()}"
        yield warning("service", found, "run one version everywhere")
    if theirs.numpy != np.__version__:
        found = f"numpy {theirs.numpy} there, {np.__version__} here"
        yield warning(
            "service draws", found, "install one version: equal seeds select equal tasks only with equal versions"
        )


def lines(findings: list["Finding"], *, problems: int, warnings: int) -> "Text":
    """Return one line for each finding, and a summary line."""
    from rich.text import Text

    widest = max(len(each.about) for each in findings)
    made = Text()
    for each in findings:
        made.append(f"{each.grade:<9}", STYLES[each.grade])
        made.append(f"{each.about:<{widest}}  {each.said}" + (f"; {each.advice}" if each.advice else "") + "\n")
    return made.append(f"{plural(problems, 'problem')}, {plural(warnings, 'warning')}")


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, such as "no problems" or "1 warning"."""
    return f"{count or 'no'} {noun}" + ("" if count == 1 else "s")
