"""What mkdocs calls while it builds the site."""

from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.docs_site import links, reference

ICON = links.ROOT / "service/bots_service/api/page/files/icon.svg"
RARELY_MEANT = ("decisions/", "source/", "CHANGELOG")  # pages that a search lists last


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what lies outside docs/, and what is made from the code."""
    for path in links.outside_docs():
        if links.is_shown(path):
            files.append(File.generated(config, links.uri_of(path), content=links.shown(path)))
        else:
            files.append(File.generated(config, links.uri_of(path), abs_src_path=str(links.ROOT / path)))
    files.append(File.generated(config, "icon.svg", abs_src_path=str(ICON)))
    files.append(File.generated(config, "client/reference.md", content=reference.client()))
    files.append(File.generated(config, "cli-reference.md", content=reference.command_line()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - mkdocs passes all by name
    """Turn links between files of the repository into links between pages of the site."""
    if page.file.src_uri.startswith(RARELY_MEANT):
        page.meta["search"] = {"boost": 0.2}
    source = page.file.abs_src_path
    if source is None:
        return markdown
    return links.with_links_of_the_site(PurePosixPath(Path(source).relative_to(links.ROOT)), markdown)
