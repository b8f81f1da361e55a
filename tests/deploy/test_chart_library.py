"""The hook that fetches the charts' library: it takes one content alone, and an installation goes on without it."""

import io
import tarfile
from pathlib import Path

import pytest
from hatchling.bridge.app import Application
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

from hatch_build import TAKEN, ChartLibrary, is_fetched


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one folder in which programs are looked for; it is empty."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder without the library."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    return folder


def hook(checkout: Path) -> ChartLibrary:
    """Return the hook as hatchling makes it for a wheel."""
    metadata = ProjectMetadata[PluginManager](str(checkout), None)
    return ChartLibrary(str(checkout), {}, None, metadata, str(checkout / "dist"), "wheel", Application())


def npm(programs: Path, does: str) -> None:
    """Provide an npm that runs a line of shell."""
    program = programs / "npm"
    program.write_text(f"#!/bin/sh\nfor last; do :; done\n{does}\n")
    program.chmod(0o755)


def package(path: Path) -> None:
    """Write a package that has the right names in it, but not the content that was tested."""
    with tarfile.open(path, "w:gz") as archive:
        for name in TAKEN:
            entry = tarfile.TarInfo(name)
            entry.size = 5
            archive.addfile(entry, io.BytesIO(b"other"))


@pytest.mark.parametrize(
    ("does", "said"), [(None, "npm is needed"), ("echo no network >&2; exit 1", "no network"), ("true", "no package")]
)
def test_an_installation_goes_on_without_it_and_says_so(
    programs: Path, checkout: Path, capsys: pytest.CaptureFixture[str], does: str | None, said: str
):
    if does is not None:
        npm(programs, does)
    hook(checkout).initialize("standard", {})
    warned = capsys.readouterr().err
    assert said in warned
    assert "tables in place of charts" in warned
    assert not is_fetched(checkout)


def test_another_content_under_the_same_version_is_refused(
    programs: Path, checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    package(tmp_path / "other.tgz")
    npm(programs, f'/bin/cp {tmp_path / "other.tgz"} "$last"')
    hook(checkout).initialize("standard", {})
    assert "another content than expected" in capsys.readouterr().err
    assert not is_fetched(checkout)
