"""Write what trials showed into docs/studies: python -m studies.pages [FILE...].

FILE is what `python -m studies` kept in build/studies: its results are first copied to studies/results, where they
replace those of the same studies. A page shows a table between `<!-- study: NAME TABLE -->` and `<!-- end -->`, and the
list of all studies between `<!-- study: all -->` and `<!-- end -->`. Charts are drawn next to the pages.
"""

import argparse
import re
from collections.abc import Iterable
from pathlib import Path

from studies.catalogue import STUDIES
from studies.charts import draw
from studies.results import Result, in_order, kept, read_results, replace_kept
from studies.tables import rendered

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs/studies"
MARKED = re.compile(r"(<!-- study: ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> None:
    """Keep the files' results, and write pages and charts from all that is kept."""
    parser = argparse.ArgumentParser(prog="python -m studies.pages", description="Tables and charts for the pages.")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="results to keep first")
    for path in parser.parse_args().files:
        replace_kept(in_order(read_results([path]), STUDIES.values()), path.stem)
    results = kept()
    for page in all_pages():
        page.write_text(filled(page.read_text("utf-8"), results), "utf-8")
    draw_all(results, PAGES)


def all_pages() -> list[Path]:
    """Return the pages that show results."""
    return sorted(PAGES.glob("*.md"))


def filled(text: str, results: Iterable[Result]) -> str:
    """Return a page's text with its tables made from results.

    Raises:
        KeyError: a marker names no table.
    """
    found = list(results)
    return MARKED.sub(lambda match: f"{match[1]}\n{_shown(match[2], found)}\n\n{match[3]}", text)


def _shown(name: str, results: list[Result]) -> str:
    if name == "all":
        return index()
    study_name, _, table_name = name.partition(" ")
    study = STUDIES[study_name]
    table = {table.name: table for table in study.tables}[table_name]
    return rendered(study, table, (result for result in results if result.study == study_name))


def index() -> str:
    """Return the list of all studies that have a page: the question, which links to it, and the answer."""
    shown = [study for study in STUDIES.values() if (PAGES / f"{study.name}.md").exists()]
    rows = [f"| [{study.title}]({study.name}.md) | {study.claim} |" for study in shown]
    return "\n".join(["| question | answer |", "|---|---|", *rows])


def draw_all(results: list[Result], folder: Path) -> None:
    """Draw each chart of which there are results."""
    for study in STUDIES.values():
        found = [result for result in results if result.study == study.name]
        for chart in study.charts if found else ():
            draw(chart, found, folder / f"{study.name}-{chart.name}.svg")


if __name__ == "__main__":
    main()
