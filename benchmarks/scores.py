"""What scripts share that score the same courses with several seeds: their command line, and what they print."""

import argparse
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any


def print_scores(
    description: str | None, measure: Callable[..., Iterable[Any]], table: Callable[[list[Any]], str], **sizes: int
) -> None:
    """Measure, and print a table, or with `--json` one object a line.

    Args:
        description: of the script, for its help.
        measure: yields dataclasses; takes each of the sizes by its name.
        table: returns all of them in Markdown.
        sizes: options of the command line with their defaults, such as seeds=10.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json", action="store_true")
    options = vars(parser.parse_args())
    as_json = options.pop("json")
    found = list(measure(**options))
    print("\n".join(json.dumps(asdict(one)) for one in found) if as_json else table(found))
