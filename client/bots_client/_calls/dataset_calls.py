"""Datasets: create, describe, change and delete pools of tasks."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bots_client._admin_models import Dataset, PoolChange, Subset
from bots_client._arguments import checked_strings
from bots_client._call import (
    Call,
    Pages,
    Progress,
    Stream,
    Upload,
    file_upload,
    given,
    key_header,
    listed,
    path,
    written,
)
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
    *,
    repeatable: bool = False,
) -> Call[Dataset]:
    """Create a dataset; an existing one with the same content is returned.

    Args:
        name: letters, digits, ".", "_" and "-".
        tasks: the pool, for example from `TaskColumns(...).tasks(rows)`; for more than 100,000 tasks use
            `upload_dataset`.
        reference_models: names of the reference models, in the order of the tasks' pass rates.
        description: text for readers.
        repeatable: whether tasks are handed out again without waiting: none is leased, and some come several times
            where a selection wants more than there are.

    Raises:
        ConflictError: a dataset of this name has other content.
    """
    models = checked_strings(reference_models, "reference_models")
    content = _pool(tasks, reference_models=models, description=description, repeatable=repeatable)
    return written("PUT", path("datasets", name), into(Dataset), content)


def upload_dataset(
    name: str,
    source: str | os.PathLike[str] | Callable[[], Iterable[bytes]],
    *,
    media_type: str | None = None,
    reference_models: Sequence[str] = (),
    description: str = "",
    repeatable: bool = False,
    on_progress: Progress | None = None,
    deadline_s: float = UPLOAD_DEADLINE_S,
) -> Call[Dataset]:
    """Create a dataset from NDJSON or Parquet, streamed, so that large pools need little memory.

    Args:
        name: letters, digits, ".", "_" and "-".
        source: path of a file, or a function that returns the bytes from the start (attempts are repeated).
        media_type: application/x-ndjson or application/vnd.apache.parquet; None: by the file's suffix.
        reference_models: names of the reference models; not needed if the file holds them.
        description: text for readers.
        repeatable: as of `create_dataset`.
        on_progress: called with the bytes sent and the total (None: unknown); starts at 0 again after a failed
            attempt. AsyncClient calls it from a thread.
        deadline_s: for the whole upload with its retries.

    Raises:
        ConflictError: a dataset of this name has other content.
        OSError: the file cannot be read.
    """
    params = [("reference_model", model) for model in checked_strings(reference_models, "reference_models")]
    if description:
        params.append(("description", description))
    if repeatable:
        params.append(("repeatable", "true"))
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
    """Add tasks to a dataset from NDJSON or Parquet, streamed: all of them, or none if one is invalid.

    Args:
        dataset: its name.
        source: as of `upload_dataset`.
        media_type: as of `upload_dataset`.
        on_progress: as of `upload_dataset`.
        deadline_s: for the whole upload with its retries.

    Raises:
        ConflictError: a task ID already exists; nothing was added.
        OSError: the file cannot be read.
    """
    upload, headers = _streamed(source, media_type, on_progress)
    return Call("POST", path("datasets", dataset, "tasks"), into(PoolChange), (), upload, headers, deadline_s)


def download_tasks(dataset: str, *, deadline_s: float = UPLOAD_DEADLINE_S) -> Stream:
    """Stream all tasks of a dataset as NDJSON that `upload_dataset` reads; retired ones too.

    Args:
        dataset: its name.
        deadline_s: until the response begins; then for each further chunk.
    """
    where = path("datasets", dataset, "tasks")
    return Call("GET", where, bytes, headers={"Accept": _MEDIA_TYPES[".ndjson"]}, deadline_s=deadline_s)


def append_tasks(dataset: str, tasks: Iterable[Task]) -> Call[PoolChange]:
    """Add tasks to a dataset.

    Raises:
        ConflictError: a task ID already exists; nothing was added.
    """
    return written("POST", path("datasets", dataset, "tasks"), into(PoolChange), _pool(tasks))


def make_subset(
    dataset: str,
    source: str | os.PathLike[str] | Callable[[], Iterable[bytes]],
    *,
    media_type: str | None = None,
    on_progress: Progress | None = None,
    deadline_s: float = UPLOAD_DEADLINE_S,
) -> Call[Subset]:
    """Make some of a dataset's tasks a subset, to select among them alone; streamed.

    The same tasks, in any order, are the same subset. A dataset keeps the 1,000 that were made last.

    Args:
        dataset: its name.
        source: the tasks, as of `upload_dataset`; only their ids count.
        media_type: as of `upload_dataset`.
        on_progress: as of `upload_dataset`.
        deadline_s: for the whole upload with its retries.

    Raises:
        InvalidRequestError: there is no task.
        OSError: the file cannot be read.
    """
    upload, headers = _streamed(source, media_type, on_progress)
    return Call("POST", path("datasets", dataset, "subsets"), into(Subset), (), upload, headers, deadline_s)


def put_predictions(dataset: str, name: str, pass_rates: Mapping[str, float]) -> Call[Dataset]:
    """Put predicted pass rates of tasks, or replace those of this name; new runs learn how far to trust them.

    Runs whose journal is empty see them too. All others keep what they know.

    Args:
        dataset: its name.
        name: of the predictor: letters, digits, ".", "_" and "-".
        pass_rates: by task ID, from 0 to 1; tasks that are left out have no prediction. For more than 100,000
            tasks, use `upload_predictions`.

    Raises:
        InvalidRequestError: a task is not in the dataset, or a pass rate is out of range.
        ConflictError: the dataset has four predictions already.
    """
    content = {"predictions": [{"id": task, "pass_rate": rate} for task, rate in pass_rates.items()]}
    return written("PUT", path("datasets", dataset, "predictions", name), into(Dataset), content)


def upload_predictions(
    dataset: str,
    name: str,
    source: str | os.PathLike[str] | Callable[[], Iterable[bytes]],
    *,
    media_type: str | None = None,
    on_progress: Progress | None = None,
    deadline_s: float = UPLOAD_DEADLINE_S,
) -> Call[Dataset]:
    """Put predictions from NDJSON or Parquet with the columns id and pass_rate, streamed.

    Args:
        dataset: its name.
        name: of the predictor.
        source: as of `upload_dataset`.
        media_type: as of `upload_dataset`.
        on_progress: as of `upload_dataset`.
        deadline_s: for the whole upload with its retries.

    Raises:
        InvalidRequestError: a task is not in the dataset, or a pass rate is out of range.
        OSError: the file cannot be read.
    """
    upload, headers = _streamed(source, media_type, on_progress)
    where = path("datasets", dataset, "predictions", name)
    return Call("PUT", where, into(Dataset), (), upload, headers, deadline_s)


def predict_from_run(dataset: str, run: str, name: str, *, step: int | None = None) -> Call[Dataset]:
    """Make predictions of what a run believes of the tasks that it has evidence of; all others have none.

    Args:
        dataset: the run's dataset.
        run: the run.
        name: of the predictions.
        step: after which the run believes so; None: after the last one.
    """
    content = {"name": name, **given(step=step)}
    return written("POST", path("datasets", dataset, "runs", run, "predictions"), into(Dataset), content)


def remove_predictions(dataset: str, name: str) -> Call[Dataset]:
    """Remove predictions: new runs no longer see them. Runs that know them keep them."""
    return written("DELETE", path("datasets", dataset, "predictions", name), into(Dataset))


def retire_tasks(dataset: str, ids: Iterable[str]) -> Call[PoolChange]:
    """Retire tasks: they are not selected until they are restored; their evidence stays in the journal."""
    content = {"ids": checked_strings(ids, "ids")}
    return written("DELETE", path("datasets", dataset, "tasks"), into(PoolChange), content)


def restore_tasks(dataset: str, ids: Iterable[str]) -> Call[PoolChange]:
    """Restore retired tasks: they can be selected again, with what is known of them."""
    content = {"ids": checked_strings(ids, "ids")}
    return written("POST", path("datasets", dataset, "tasks", "restore"), into(PoolChange), content)


def dataset(name: str) -> Call[Dataset]:
    """Describe a dataset."""
    return Call("GET", path("datasets", name), into(Dataset))


def datasets(*, limit: int | None = None) -> Pages[Dataset]:
    """List the datasets.

    Args:
        limit: maximum number of datasets; None: all.
    """
    return listed(Dataset, "datasets", path("datasets"), limit)


def delete_dataset(name: str) -> Call[None]:
    """Permanently delete a dataset with its runs and their journals."""
    return written("DELETE", path("datasets", name), nothing)


def _streamed(
    source: str | os.PathLike[str] | Callable[[], Iterable[bytes]], media_type: str | None, on_progress: Progress | None
) -> tuple[Upload, dict[str, str]]:
    """Return an upload and its headers."""
    upload = Upload(source, None, on_progress) if callable(source) else file_upload(source, on_progress)
    if media_type is None:
        media_type = None if callable(source) else _MEDIA_TYPES.get(Path(source).suffix.lower())
    if media_type is None:
        endings, types = ", ".join(_MEDIA_TYPES), ", ".join(sorted(set(_MEDIA_TYPES.values())))
        if callable(source):
            raise InvalidRequestError(f"pass media_type=, one of {types}")
        wanted = f"give a file that ends with one of {endings}; in Python you can also pass media_type=, one of {types}"
        raise InvalidRequestError(f"the format of {Path(source).name} is not known: {wanted}")
    return upload, {**key_header(None), "Content-Type": media_type}


def _pool(
    tasks: Iterable[Task], *, reference_models: Sequence[str] = (), description: str = "", repeatable: bool = False
) -> dict[str, Any]:
    about = given(
        reference_models=reference_models or None, description=description or None, repeatable=repeatable or None
    )
    return {**about, "tasks": wires_of_tasks(tasks)}
