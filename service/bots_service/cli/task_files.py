"""Tasks made of the rows of files."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bots_service.cli.failures import CommandError
from bots_service.cli.row_files import Batch, Wanted, files_of, kind_of, read_rows, stem_of

if TYPE_CHECKING:
    from bots_client import Task, TaskColumns

OWN = {"id", "reference_pass_rates", "tags"}  # the columns of a file that the service reads as it is


@dataclass(frozen=True, slots=True)
class Source:
    """Files, and how their rows become tasks.

    file_in_id: put the file's name in front of each id, and number the rows of each file from 0.
    skip_repeats: leave out rows whose id came before.
    """

    files: list[Path]
    columns: "TaskColumns"
    file_in_id: bool = False
    skip_repeats: bool = False

    @classmethod
    def of(
        cls, paths: list[Path], columns: "TaskColumns", *, file_in_id: bool = False, skip_repeats: bool = False
    ) -> "Source":
        """Return the source that a command names: files, and folders of files.

        Raises:
            CommandError: a file is of no known kind, or is CSV where its content is to be the id.
        """
        files = files_of(paths)
        for file in files:
            if columns.id_from == "content" and kind_of(file) == ".csv":
                raise CommandError(
                    f"{file}: no ids from the content of CSV, which does not say whether 3 is a number or a text, so "
                    "that your trainer may compute others; convert the file to Parquet or JSON Lines with what your "
                    "trainer reads it with, and give both that file"
                )
        return cls(files, columns, file_in_id, skip_repeats)

    @property
    def wanted(self) -> Wanted:
        """The columns to read."""
        return Wanted(self.columns.named, frozenset(self.columns.references) - {*self.columns.id_columns})

    @property
    def is_own(self) -> bool:
        """Whether it is one file as the service itself reads it, which is sent as it is.

        Raises:
            CommandError: it can't be read.
        """
        (file, *more), changed = self.files, self.file_in_id or self.skip_repeats
        return not (more or changed) and self._has_defaults and is_own(file)

    @property
    def _has_defaults(self) -> bool:
        columns = self.columns
        return (columns.id, columns.id_from) == ("id", "columns") and not columns.references and not columns.tags


@dataclass(slots=True)
class Read:
    """How far the files were read. share: of their bytes; unused: columns that were not wanted."""

    rows: int = 0
    repeats: int = 0
    share: float = 0.0
    unused: set[str] = field(default_factory=set)


def read_tasks(source: Source, read: Read) -> Iterator[list["Task"]]:
    """Yield the tasks in batches.

    Args:
        source: the files.
        read: told how far they were read; begins anew with each call.

    Raises:
        CommandError: a file is broken or empty, or lacks a column or an id.
        OSError: one can't be read.
    """
    sizes, done, seen = [file.stat().st_size for file in source.files], 0, set[str]()
    read.rows, read.repeats, read.share = 0, 0, 0.0
    for file, size in zip(source.files, sizes, strict=True):
        before = read.rows
        for batch in read_rows(file, source.wanted):
            _require_rates_wanted(file, batch, source)
            tasks = list(_tasks_of(file, batch, source, before))
            read.rows += len(tasks)
            read.unused |= batch.unused
            if source.skip_repeats:
                first_of = {task.id: task for task in reversed(tasks)}
                tasks = [task for task in tasks if first_of[task.id] is task and task.id not in seen]
                seen.update(first_of)
                read.repeats = read.rows - len(seen)
            read.share = (done + batch.share_read * size) / max(sum(sizes), 1)
            yield tasks
        if read.rows == before:
            raise CommandError(f"{file}: there are no rows")
        done += size


def _tasks_of(file: Path, batch: Batch, source: Source, before: int) -> Iterator["Task"]:
    from bots_client import InvalidRequestError

    first = batch.first if source.file_in_id else before + batch.first
    for place, row in enumerate(batch.rows):
        try:
            task = source.columns.task(row, first + place)
        except InvalidRequestError as error:
            raise CommandError(f"{file}: row {batch.first + place + 1}: {error}") from error
        yield replace(task, id=f"{stem_of(file)}:{task.id}") if source.file_in_id else task


def _require_rates_wanted(file: Path, batch: Batch, source: Source) -> None:
    """Refuse to lose pass rates without a word."""
    if "reference_pass_rates" in batch.unused and not source.columns.references:
        raise CommandError(
            f"{file}: it has a column reference_pass_rates, which is read only from one file with no columns but "
            f"{', '.join(sorted(OWN))} and without options for columns; or name columns of pass rates by --reference"
        )


def is_own(file: Path) -> bool:
    """Say whether a file is as the service itself reads it: no columns but its own, or lines of such tasks."""
    if file.suffix.lower() == ".parquet":
        from pyarrow import parquet

        with parquet.ParquetFile(file) as opened:
            return "id" in opened.schema_arrow.names and OWN.issuperset(opened.schema_arrow.names)
    if file.suffix.lower() not in (".jsonl", ".ndjson") or kind_of(file) is None:
        return False
    first = next(iter(read_rows(file, Wanted(()))), None)
    # The first line may say what the whole is.
    tasks = [] if first is None else [row for row in first.rows if row.keys() - {"reference_models", "description"}]
    return bool(tasks) and all(OWN.issuperset(row) for row in tasks)


def name_of(paths: list[Path]) -> str:
    """Return the name of a dataset that is made of files: the file's, or the folder's.

    Raises:
        CommandError: there are several.
    """
    if len(paths) > 1:
        raise CommandError("several files need a name for their dataset; pass --name")
    (path,) = paths
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.resolve().name if path.is_dir() else stem_of(path))
