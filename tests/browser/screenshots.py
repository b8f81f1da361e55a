"""Photographs every view of the page, from the real replay; `make screenshots` runs it.

All of them go to build/screenshots, for three widths and both themes. The README's pictures and its animation go to
docs/images.
"""

import tempfile
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from threading import Event

import httpx
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from bots_service.demo.replay import RUNS
from tests.browser import everything, given_tasks
from tests.browser.chromium import ColorScheme, Visit, open_chromium, visiting
from tests.browser.replaying import DATASET, PASS, replaying
from tests.serving import ServiceProcess, running_service

Look = Callable[[Visit, str], None]

IMAGES = Path(__file__).parents[2] / "docs" / "images"
STEPS = 500  # the whole run
REPLAYED_S = 600.0
SIZES = {"1440": (1440, 900), "1920": (1920, 1080), "390": (390, 844)}
SCHEMES: tuple[ColorScheme, ...] = ("light", "dark")
RUN = f"datasets/{DATASET}/runs/{PASS}"
VIEWS = {
    "overview": "",
    "dataset": f"datasets/{DATASET}",
    "run": RUN,
    "tasks": f"{RUN}/tasks",
    "tasks-stuck": f"{RUN}/tasks?segment=stuck",
    "task": f"{RUN}/tasks?task=dsr_sub/21",
    "not-found": f"datasets/{DATASET}/runs/tracker-pas",
}
EVERYTHING_VIEWS = {
    "everything-dataset": f"datasets/{everything.DATASET}",
    "everything-run": f"datasets/{everything.DATASET}/runs/{everything.RUN}",
    "everything-tasks": f"datasets/{everything.DATASET}/runs/{everything.RUN}/tasks",
    "everything-task": f"datasets/{everything.DATASET}/runs/{everything.RUN}/tasks?task=math-0",
}
GIVEN_VIEWS = {
    "predictions-dataset": f"datasets/{given_tasks.PREDICTED}",
    "predictions-run": f"datasets/{given_tasks.PREDICTED}/runs/default",
}
README_SIZE = (1320, 1010)

FRAMES = 24
BETWEEN_FRAMES_S = 1.0
FRAME_MS = 500
LAST_FRAME_MS = 3000
ANIMATION_SIZE = (1200, 760)


def main() -> None:
    """Replay the run at a service of its own, and take all pictures."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = open_chromium(playwright)
        with running_service(Path(folder, "trained")) as service:
            animate(browser, service)
            photograph_readme(browser, service)
            for name, view in VIEWS.items():
                photograph_all(browser, service.url, name, view)
        with running_service(Path(folder, "everything")) as service:
            everything.train_on_everything(service.url)
            for name, view in EVERYTHING_VIEWS.items():
                photograph_all(browser, service.url, name, view)
        with running_service(Path(folder, "given")) as service:
            given_tasks.train_with_predictions(service.url)
            for name, view in GIVEN_VIEWS.items():
                photograph_all(browser, service.url, name, view)
        with running_service(Path(folder, "empty")) as service:
            photograph_all(browser, service.url, "empty", "")
        with running_service(Path(folder, "guarded"), admin_key="the-operators-own-key") as service:
            photograph_all(browser, service.url, "sign-in", "", asked_for_key)
        browser.close()


def animate(browser: Browser, service: ServiceProcess) -> None:
    """Replay the run, and keep how the comparison of its runs grows as an animated picture."""
    print(f"Replaying {STEPS} steps at {service.url}")
    frames: list[Image.Image] = []
    with replaying(service.url, STEPS) as done, visiting(browser, service.url, size=ANIMATION_SIZE) as visit:
        wait_for_runs(service, done)
        opened(visit, f"datasets/{DATASET}")
        end = time.monotonic() + REPLAYED_S
        while not done.wait(BETWEEN_FRAMES_S) and time.monotonic() < end:
            frames.append(photograph(visit))
        assert done.is_set(), "the replay did not get to its end"
        opened(visit, f"datasets/{DATASET}")
        frames = [*frames[:: max(1, len(frames) // FRAMES)], photograph(visit)]
    times = [FRAME_MS] * (len(frames) - 1) + [LAST_FRAME_MS]
    frames[0].save(IMAGES / "page.webp", save_all=True, append_images=frames[1:], duration=times, loop=0, quality=70)


def wait_for_runs(service: ServiceProcess, done: Event) -> None:
    """Return once all runs of the replay have closed a step."""
    while not done.wait(0.1):
        runs = httpx.get(f"{service.url}/overview").raise_for_status().json()["runs"]
        if sum(run["step"] > 0 for run in runs) == len(RUNS):  # the dataset's run `default` is not used
            return


def opened(visit: Visit, view: str) -> None:
    """Open a view, and wait until it is complete, with its charts if it has any."""
    page = visit.open(view)
    page.locator("main h1").wait_for()
    page.wait_for_load_state("networkidle")
    if page.locator("figure.chart").count():
        visit.drawn()


def photograph(visit: Visit) -> Image.Image:
    """Return how the window looks now."""
    return Image.open(BytesIO(visit.page.screenshot())).convert("RGB")


def photograph_readme(browser: Browser, service: ServiceProcess) -> None:
    """Take the README's pictures: a run with the default belief and strategy."""
    for scheme in SCHEMES:
        with visiting(browser, service.url, size=README_SIZE, scheme=scheme) as visit:
            opened(visit, RUN)
            photograph(visit).save(IMAGES / f"run-{scheme}.png", optimize=True)


def photograph_all(browser: Browser, url: str, name: str, view: str, look: Look = opened) -> None:
    """Take a view's pictures at each size, in both themes. look: brings the view about."""
    for size, pixels in SIZES.items():
        for scheme in SCHEMES:
            with visiting(browser, url, size=pixels, scheme=scheme, refused={401, 404}) as visit:
                look(visit, view)
                visit.keep(f"{name}-{size}-{scheme}", whole="?task=" not in view)
    print(f"  {name}")


def asked_for_key(visit: Visit, view: str) -> None:
    """Open a view of a service that requires keys."""
    visit.page.goto(f"{visit.url}/#/{view}")
    visit.page.get_by_role("heading", name="Sign in").wait_for()


if __name__ == "__main__":
    main()
