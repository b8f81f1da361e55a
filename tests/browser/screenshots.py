"""Makes the README's pictures: the page while a real training run is replayed. `make screenshots` runs it."""

import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browser.chromium import ColorScheme, open_chromium, visiting
from tests.browser.replaying import BOTS, DATASET, replaying
from tests.serving import running_service

IMAGES = Path(__file__).parents[2] / "docs" / "images"
STEPS = 500  # the whole run
REPLAYED_S = 600.0
SIZE = (1320, 1010)
SCHEMES: tuple[ColorScheme, ...] = ("light", "dark")


def main() -> None:
    """Replay the run at a service of its own, and take the pictures at its end."""
    IMAGES.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        running_service(Path(folder)) as service,
        sync_playwright() as playwright,
    ):
        print(f"Replaying {STEPS} steps at {service.url}")
        with replaying(service.url, STEPS) as done:
            assert done.wait(REPLAYED_S), "the replay did not get to its end"
        browser = open_chromium(playwright)
        for scheme in SCHEMES:
            for name, view in (("run", f"/runs/{BOTS}"), ("dataset", "")):
                with visiting(browser, service.url, size=SIZE, scheme=scheme) as visit:
                    visit.open(f"datasets/{DATASET}{view}")
                    visit.page.wait_for_function(
                        "() => [...document.querySelectorAll('.plot')].every((one) => one.data)"
                    )
                    visit.page.screenshot(path=IMAGES / f"{name}-{scheme}.png")
                    print(f"docs/images/{name}-{scheme}.png")
        browser.close()


if __name__ == "__main__":
    main()
