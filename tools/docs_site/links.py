"""Links of the repository's pages, and where they lead on the site."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath

ROOT = Path(__file__).parents[2]
HOME = PurePosixPath("README.md")
FENCED = re.compile(r"(?ms)^([ \t]*)(`{3,}|~{3,}).*?^[ \t]*\2[ \t]*$")
LINK = re.compile(r'(?P<before>\]\(|\b(?:src|srcset)=")(?!\w+:|#)(?P<path>[^)"\s#]+)')
# Larger files are copied as they are: nobody reads them on a page.
LARGEST_SHOWN = 60_000
LANGUAGES = {".py": "python", ".sh": "bash", ".mjs": "javascript", ".go": "go", ".json": "json", ".yml": "yaml"}


def is_page(path: PurePosixPath) -> bool:
    """Say whether a file of the repository is a page of Markdown."""
    return path.suffix == ".md"


def is_picture(path: PurePosixPath) -> bool:
    """Say whether a file of the repository is shown as a picture."""
    return path.suffix in {".png", ".svg", ".webp", ".gif"}


def is_shown(path: PurePosixPath) -> bool:
    """Say whether the site shows a file as the code on a page, or a folder as a list of its files."""
    there = ROOT / path
    return there.is_dir() or (
        not is_page(path) and not is_picture(path) and path.suffix != ".ndjson" and there.stat().st_size < LARGEST_SHOWN
    )


def uri_of(path: PurePosixPath) -> str:
    """Return where a file of the repository is on the site, as mkdocs names a source."""
    if path == HOME:
        return "index.md"
    if path.is_relative_to("docs"):
        return str(path.relative_to("docs"))
    # mkdocs leaves out files whose names begin with a dot
    return f"source/{str(path).lstrip('.')}.md" if is_shown(path) else str(path)


def links_of(page: PurePosixPath, text: str) -> Iterator[PurePosixPath]:
    """Yield the files of the repository to which a page links, in order."""
    for link in LINK.finditer(FENCED.sub("", text)):
        yield target(page, link["path"])


def target(page: PurePosixPath, link: str) -> PurePosixPath:
    """Return the file of the repository to which a page's link leads."""
    return PurePosixPath(normpath(page.parent / link))


def with_links_of_the_site(page: PurePosixPath, text: str) -> str:
    """Return a page of the repository with the links that it has on the site; code stays as it is."""
    here = PurePosixPath(uri_of(page)).parent

    def moved(link: re.Match[str]) -> str:
        return link["before"] + relpath(uri_of(target(page, link["path"])), here)

    return _outside_code(text, lambda prose: LINK.sub(moved, prose))


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    parts, end = [], 0
    for block in FENCED.finditer(text):
        parts += [change(text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, change(text[end:])])


def outside_docs() -> list[PurePosixPath]:
    """Return the files outside docs/ that the site needs: README, and all that is linked from its pages."""
    waiting = [HOME, *(PurePosixPath(page.relative_to(ROOT)) for page in sorted(ROOT.glob("docs/**/*.md")))]
    seen = set(waiting)
    while waiting:
        page = waiting.pop()
        for linked in links_of(page, (ROOT / page).read_text("utf-8")):
            if linked not in seen and (ROOT / linked).exists():
                seen.add(linked)
                if is_page(linked):
                    waiting.append(linked)
    return sorted(path for path in seen if not path.is_relative_to("docs"))


def shown(path: PurePosixPath) -> str:
    """Return the page that shows a source file, or lists a folder."""
    there = ROOT / path
    if there.is_dir():
        names = sorted(
            f"{one.name}/" if one.is_dir() else one.name for one in there.iterdir() if one.name[0] not in "._"
        )
        return f"# {path}\n\nThis folder of the repository has:\n\n" + "".join(f"- `{name}`\n" for name in names)
    language = LANGUAGES.get(path.suffix, "text")
    return f"# {path}\n\n````{language}\n{there.read_text('utf-8')}\n````\n"
