"""Makes the README's pictures and its animation from the real replay, in docs/images; `make screenshots` runs it.

`make test-browser` leaves pictures of every view under build/screenshots.
"""

import tempfile
import time
from io import BytesIO
from pathlib import Path
from threading import Event

import httpx
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from bots_service.demo.replay import RUNS
from tests.browser.chromium import SCHEMES, Visit, open_chromium, visiting
from tests.browser.replaying import DATASET, PASS, replaying
from tests.serving import ServiceProcess, running_service

IMAGES = Path(__file__).parents[2] / "docs" / "images"
STEPS = 500  # the whole run
REPLAYED_S = 600.0
RUN = f"datasets/{DATASET}/runs/{PASS}"
README_SIZE = (1320, 1010)

FRAMES = 24
BETWEEN_FRAMES_S = 1.0
FRAME_MS = 500
LAST_FRAME_MS = 3000
ANIMATION_SIZE = (1200, 760)


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = open_chromium(playwright)
        with running_service(Path(folder, "trained")) as service:
            animate(browser, service)
            photograph_readme(browser, service)
        browser.close()


def animate(browser: Browser, service: ServiceProcess) -> None:
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
    while not done.wait(0.1):
        runs = httpx.get(f"{service.url}/overview").raise_for_status().json()["runs"]
        if sum(run["step"] > 0 for run in runs) == len(RUNS):  # the dataset's run `default` is not used
            return


def opened(visit: Visit, view: str) -> None:
    page = visit.open(view)
    page.locator("main h1").wait_for()
    page.wait_for_load_state("networkidle")
    if page.locator("figure.chart").count():
        visit.drawn()


def photograph(visit: Visit) -> Image.Image:
    return Image.open(BytesIO(visit.page.screenshot())).convert("RGB")


def photograph_readme(browser: Browser, service: ServiceProcess) -> None:
    for scheme in SCHEMES:
        with visiting(browser, service.url, size=README_SIZE, scheme=scheme) as visit:
            opened(visit, RUN)
            photograph(visit).save(IMAGES / f"run-{scheme}.png", optimize=True)


if __name__ == "__main__":
    main()
