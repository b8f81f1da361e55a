"""The picture of the architecture in README: python -m tools.architecture writes docs/images/architecture.svg.

    python -m tools.architecture --check    # is the file up to date?

Boxes stand in a grid; an arrow joins two of them. The picture follows the reader's light or dark scheme.
"""

import argparse
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

IMAGE = Path(__file__).parents[1] / "docs/images/architecture.svg"
SIZE = (925, 287)
LINE = 19  # pixels between two lines of text
STYLE = """
  svg { font-family: system-ui, -apple-system, "Segoe UI", sans-serif; font-size: 13px }
  rect.ground { fill: #ffffff; stroke: none }
  rect.other { fill: #f6f8fa; stroke: #6b7684; rx: 8 } rect.ours { fill: #e6f4f1; stroke: #0b7a69; rx: 8 }
  text { fill: #1f2933; text-anchor: middle } text.title { font-weight: 600; font-size: 15px }
  text.label { fill: #4a5560; font-size: 12px } path { stroke: #4a5560; fill: none; stroke-width: 1.5 }
  marker path { fill: #4a5560; stroke: none }
  @media (prefers-color-scheme: dark) {
    rect.ground { fill: #10151a } rect.other { fill: #1d242c; stroke: #8b98a5 }
    rect.ours { fill: #12302c; stroke: #35b39f }
    text { fill: #e6ebf0 } text.label { fill: #aab5c0 } path { stroke: #aab5c0 } marker path { fill: #aab5c0 }
  }
"""


@dataclass(frozen=True, slots=True)
class Box:
    """A part of the system. x, y, width, height: in pixels; lines: what it is called, and what it does."""

    x: int
    y: int
    width: int
    height: int
    lines: tuple[str, ...]
    ours: bool = False

    def svg(self) -> str:
        """Return the box with its text, centred."""
        middle, top = self.x + self.width / 2, self.y + self.height / 2 - (len(self.lines) - 1) * LINE / 2 + 5
        kinds = ["title", *["plain"] * len(self.lines)]
        texts = [
            f'<text x="{middle:g}" y="{top + place * LINE:g}" class="{kinds[place]}">{escape(line)}</text>'
            for place, line in enumerate(self.lines)
        ]
        kind = "ours" if self.ours else "other"
        box = f'<rect x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}" class="{kind}"/>'
        return "\n".join([box, *texts])


@dataclass(frozen=True, slots=True)
class Arrow:
    """What flows from one point to another. both: it flows back, too; label: its text, placed at a point of its own."""

    start: tuple[int, int]
    end: tuple[int, int]
    label: str
    place: tuple[int, int]
    both: bool = False

    def svg(self) -> str:
        """Return the arrow with its label."""
        (x, y), (to_x, to_y) = self.start, self.end
        start = ' marker-start="url(#head)"' if self.both else ""
        line = f'<path d="M{x} {y}L{to_x} {to_y}" marker-end="url(#head)"{start}/>'
        return f'{line}\n<text x="{self.place[0]}" y="{self.place[1]}" class="label">{escape(self.label)}</text>'


TRAINER = (
    "Your trainer",
    "TRL, verl, ... or your own loop",
    "with bots_client, which continues",
    "while the service is away",
)
SERVICE = (
    "BOTS service",
    "one process, or any number of replicas",
    "belief: how likely each task succeeds",
    "strategy: which tasks come next",
    "journal: every report, in order",
)
BOXES = (
    Box(20, 40, 230, 120, TRAINER),
    Box(395, 20, 280, 160, SERVICE, ours=True),
    Box(745, 20, 160, 75, ("PostgreSQL", "or SQLite:", "journal and states")),
    Box(745, 115, 160, 75, ("Redis", "shared live state,", "tasks in flight")),
    Box(20, 212, 230, 55, ("Disk", "reports that were not sent yet")),
    Box(395, 226, 280, 41, ("Page, bots CLI, Grafana",)),
)
ARROWS = (
    Arrow((395, 70), (256, 70), "tasks to train on", (323, 60)),
    Arrow((250, 130), (389, 130), "rewards of rollouts", (321, 150)),
    Arrow((681, 70), (739, 62), "durable", (712, 50), both=True),
    Arrow((681, 140), (739, 148), "live", (708, 168), both=True),
    Arrow((135, 166), (135, 206), "", (0, 0), both=True),
    Arrow((535, 180), (535, 220), "", (0, 0)),
)


def picture() -> str:
    """Return the picture as SVG."""
    width, height = SIZE
    head = (
        '<marker id="head" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z"/></marker>'
    )
    title = "A trainer asks the BOTS service for tasks and reports rewards; the service keeps a journal in PostgreSQL"
    ground = f'<rect width="{width}" height="{height}" class="ground"/>'
    parts = [f"<title>{title}</title>", f"<style>{STYLE}</style>", f"<defs>{head}</defs>", ground]
    shapes = [shape.svg() for shape in (*ARROWS, *BOXES)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            *parts, *shapes, "</svg>\n",
        ]
    )  # fmt: skip


def main(*arguments: str) -> int:
    """Write the picture, or say whether it is up to date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if the file is not up to date")
    if not parser.parse_args(arguments).check:
        IMAGE.write_text(picture(), "utf-8")
        return 0
    if IMAGE.read_text("utf-8") == picture():
        return 0
    print("docs/images/architecture.svg is not up to date: run `python -m tools.architecture`")
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
