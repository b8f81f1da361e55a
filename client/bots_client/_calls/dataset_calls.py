"""Datasets: make, describe, change and delete pools of tasks."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from bots_client._admin_models import Dataset, PoolChange
from bots_client._arguments import checked_strings
from bots_client._call import Call, Pages, Progress, Upload, file_upload, given, key_header, listed, path, written
from bots_client._decode import into, nothing
from bots_client._errors import InvalidRequestError
from bots_client._inputs import Task, wires_of_tasks

UPLOAD_DEADLINE_S = 600.0  # a pool of a million tasks is some 100 MB, and the service checks every one

_MEDIA_TYPES = {
    ".ndjson": "application/x-ndjson",
    ".jsonl": "application/x-ndjson",
    ".parquet": "application/vnd.apache.parquet",
}


def create_dataset(
    name: str,
    tasks: Iterable[Task],
    reference_models: Sequence[str] = (),
    description: str = "",
) -> Call[Dataset]:
    """Make a dataset, or find that it exists with the same content.

    Args:
        name: letters, digits, ".", "_" and "-".
        tasks: the pool, such as `TaskColumns(...).tasks(rows)` makes of rows; for more than some 100,000 tasks use
            `upload_dataset`.
        reference_models: names of the models whose pass rates the tasks carry, in the order of the rates.
        description: for people.

    Raises:
        ConflictError: it exists with another content.
    """
    content = _pool(
        tasks, reference_models=checked_strings(reference_models, "reference_models"), description=description
    )
    return written("PUT", path("datasets", name), into(Dataset), content)


def upload_dataset(
    name: str,
    source: str | os.PathLike[str] | Callable[[], Iterable[bytes]],
    *,
    media_type: str | None = None,
    reference_models: Sequence[str] = (),
    description: str = "",
    on_progress: Progress | None = None,
    deadline_s: float = UPLOAD_DEADLINE_S,
) -> Call[Dataset]:
    """Make a dataset from NDJSON or Parquet, streamed, so that pools of millions need no memory.

    Args:
        name: letters, digits, ".", "_" and "-".
        source: path of a file, or a function that begins the bytes anew (an attempt may have to be repeated).
        media_type: application/x-ndjson or application/vnd.apache.parquet; None: as the file's name says.
        reference_models: names of the models whose pass rates the tasks carry; not needed if the file holds them.
        description: for people.
        on_progress: called with the bytes sent and the bytes in all (None: not known); counts anew after a failed
            attempt. AsyncClient calls it from a thread.
        deadline_s: for the whole upload with its retries.

    Raises:
        ConflictError: it exists with another content.
        OSError: the file cannot be read.
    """
    params = [("reference_model", model) for model in checked_strings(reference_models, "reference_models")]
    if description:
        params.append(("description", description))
    upload, headers = _streamed(source, media_type, on_progress)
    return Call("PUT", path("datasets", name), into(Dataset), tuple(params), upload, headers, deadline_s)


def upload_tasks(
    dataset: str,
    source: str | os.PathLike[str] | Callable[[], Iterable[bytes]],
    *,
    media_type: str | None = None,
    on_progress: Progress | None = None,
    deadline_s: float = UPLOAD_DEADLINE_S,
) -> Call[PoolChange]:
    """Add tasks to a dataset from NDJSON or Parquet, streamed: all, or none if one is refused.

    Args:
        dataset: its name.
        source: as of `upload_dataset`.
        media_type: as of `upload_dataset`.
        on_progress: as of `upload_dataset`.
        deadline_s: for the whole upload with its retries.

    Raises:
        ConflictError: one of the ids exists already; nothing was added.
        OSError: the file cannot be read.
    """
    upload, headers = _streamed(source, media_type, on_progress)
    return Call("POST", path("datasets", dataset, "tasks"), into(PoolChange), (), upload, headers, deadline_s)


def append_tasks(dataset: str, tasks: Iterable[Task]) -> Call[PoolChange]:
    """Add tasks to a dataset.

    Raises:
        ConflictError: one of the ids exists already; nothing was added.
    """
    return written("POST", path("datasets", dataset, "tasks"), into(PoolChange), _pool(tasks))


def retire_tasks(dataset: str, ids: Iterable[str]) -> Call[PoolChange]:
    """Take tasks out of all further selections; what was learned of them stays in the journal."""
    content = {"ids": checked_strings(ids, "ids")}
    return written("DELETE", path("datasets", dataset, "tasks"), into(PoolChange), content)


def dataset(name: str) -> Call[Dataset]:
    """Describe a dataset."""
    return Call("GET", path("datasets", name), into(Dataset))


def datasets(*, limit: int | None = None) -> Pages[Dataset]:
    """Go through the datasets.

    Args:
        limit: at most so many; None: all.
    """
    return listed(Dataset, "datasets", path("datasets"), limit)


def delete_dataset(name: str) -> Call[None]:
    """Delete a dataset with its runs and their journals, for ever."""
    return written("DELETE", path("datasets", name), nothing)


def _streamed(
    source: str | os.PathLike[str] | Callable[[], Iterable[bytes]], media_type: str | None, on_progress: Progress | None
) -> tuple[Upload, dict[str, str]]:
    """Return an upload and its headers."""
    upload = Upload(source, None, on_progress) if callable(source) else file_upload(source, on_progress)
    if media_type is None:
        media_type = None if callable(source) else _MEDIA_TYPES.get(Path(source).suffix.lower())
    if media_type is None:
        raise InvalidRequestError(f"pass media_type=, one of {', '.join(sorted(set(_MEDIA_TYPES.values())))}")
    return upload, {**key_header(None), "Content-Type": media_type}


def _pool(tasks: Iterable[Task], *, reference_models: Sequence[str] = (), description: str = "") -> dict[str, Any]:
    return {
        **given(reference_models=reference_models or None, description=description or None),
        "tasks": wires_of_tasks(tasks),
    }
