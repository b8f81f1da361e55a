"""PyTorch: a sampler, an iterable dataset, and one selection for all ranks."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import torch.distributed
from torch.utils.data import DataLoader, IterableDataset, Sampler, get_worker_info

from bots_client import Selector
from bots_client._inputs import checked_ids

T = TypeVar("T")
Loader = TypeVar("Loader", bound=DataLoader[Any])


def from_rank_zero(ask: Callable[[], T]) -> T:
    """Return rank 0's result on every rank; all ranks must call it. Pass it as `Selector(share=from_rank_zero)`.

    Without an initialised process group, there is one process, which calls `ask` itself.

    Raises RuntimeError: `ask` failed on rank 0; there the error itself is raised.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return ask()
    box: list[Any] = [None, None]  # the answer, what failed
    failure: Exception | None = None
    if torch.distributed.get_rank() == 0:
        try:
            box[0] = ask()
        except Exception as error:  # sent too: otherwise the other ranks would wait without end
            failure, box[1] = error, f"{type(error).__name__}: {error}"
    torch.distributed.broadcast_object_list(box, src=0)
    if failure is not None:
        raise failure
    if box[1] is not None:
        raise RuntimeError(f"rank 0 failed: {box[1]}")
    return cast(T, box[0])


def to_rank_zero(things: Sequence[T]) -> list[T]:
    """Return the items of all ranks on rank 0, in rank order, and an empty list elsewhere; all ranks must call it.

    Without an initialised process group, return the given items.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return list(things)
    of_ranks: list[list[T]] = [[] for _ in range(torch.distributed.get_world_size())]
    torch.distributed.all_gather_object(of_ranks, list(things))
    return [] if torch.distributed.get_rank() else [thing for of_rank in of_ranks for thing in of_rank]


@dataclass(slots=True)
class _Place:
    """The position of an iteration. It holds task ids: rows may be removed, added and moved before it is continued.

    skipped: number of placeholders that come first.
    left: the rest of its chunk as (task id, selection id).
    gone: number of tasks of its chunk that are no longer among the rows; so many others complete the chunk.
    given: number of positions yielded.
    """

    skipped: int = 0
    left: deque[tuple[str, str]] = field(default_factory=deque)
    gone: int = 0
    given: int = 0


class _Chosen:
    """Positions of rows, in chunks of selected tasks; one selection per chunk.

    copies: repeats of each position in a row; passes: repeats of the whole chunk; saves_run: the state includes the
    selector's. Without a length it is endless, or as many whole chunks as fit into the number of rows.
    """

    _is_endless = True

    def __init__(
        self,
        selector: Selector,
        *,
        count: int,
        ids: Sequence[str] | None = None,
        copies: int = 1,
        passes: int = 1,
        length: int | None = None,
        saves_run: bool = False,
    ) -> None:
        self._ids = checked_ids(selector.ids if ids is None else ids)
        self._positions = {task: position for position, task in enumerate(self._ids)}
        if not 1 <= count <= len(self._ids):
            raise ValueError(f"{count} tasks can't be selected from {len(self._ids)} rows")
        missing = next((task for task in selector.ids if task not in self._positions), None)
        if missing is not None:
            raise ValueError(f"no row has the id {missing!r}, which is one of the selector's")
        self._selector = selector
        self._count, self._copies, self.passes = count, copies, passes
        whole_chunks = None if self._is_endless else len(self._ids) // count * self.chunk
        self._length = whole_chunks if length is None else length
        self._saves_run = saves_run
        self._place = _Place()
        self._next: _Place | None = None  # start of the next iteration; None: the beginning

    @property
    def chunk(self) -> int:
        """Number of positions from one selection, over all passes."""
        return self._count * self._copies * self.passes

    def _begin(self) -> Iterator[tuple[int, str]]:
        place, self._next = self._next or _Place(), None
        self._place = place
        return self._give(place)

    def _give(self, place: _Place) -> Iterator[tuple[int, str]]:
        while self._length is None or place.given < self._length:
            if place.skipped:
                place.skipped -= 1
                place.given += 1
                yield 0, ""
                continue
            if not place.left:
                place.left.extend(self._choose(place.gone or self._count))
                place.gone = 0
            place.given += 1
            task, selection = place.left.popleft()
            yield self._positions[task], selection

    def _choose(self, count: int) -> list[tuple[str, str]]:
        selection = self._selector.next(count)
        chosen = [(task, selection.selection_id) for task in selection.ids]
        return [one for _ in range(self.passes) for one in chosen for _ in range(self._copies)]

    def skip(self, count: int) -> None:
        """Start the next iteration with `count` placeholders, without selecting tasks for them.

        For loaders that resume by iterating over consumed rows, such as Hugging Face's `skip_first_batches`; each
        placeholder is position 0. A chunk that is skipped only in part is selected, and its rest is yielded.
        """
        self._next = _Place(skipped=count // self.chunk * self.chunk)

    def __len__(self) -> int:
        if self._length is None:
            raise TypeError("this iteration is infinite; pass length=")
        return self._length

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the iteration as plain values; with `saves_run`, also the selector's state.

        It holds the ids of the tasks that were selected and not yielded, whatever the number of rows.
        """
        place = self._next or self._place
        run = {"selector": self._selector.state_dict()} if self._saves_run else {}
        about = {"skipped": place.skipped, "gone": place.gone, "given": place.given}
        return {"left": [list(one) for one in place.left], **about, **run}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved position in the next iteration; nothing is selected again.

        Tasks that are no longer among the rows are logged and passed over, and as many others selected after the rest
        of the chunk. With `saves_run`, the run is rewound.
        """
        if self._saves_run:
            self._selector.load_state_dict(state["selector"])
        # A rewind invalidates earlier selections; without them, evidence counts for the current step.
        left = [(str(task), "" if self._saves_run else str(selection)) for task, selection in state["left"]]
        kept = self._selector.handed_out(task for task, _ in left)
        self._next = _Place(
            skipped=int(state["skipped"]),
            left=deque(one for one in left if one[0] in kept),
            gone=int(state["gone"]) + len({task for task, _ in left} - kept),
            given=int(state["given"]),
        )


class SelectorSampler(_Chosen, Sampler[int]):
    """Positions of a map-style dataset, in the order in which their tasks are selected.

    It selects in the loader's own process, once per chunk, so it works with any number of workers. All ranks get the
    same positions if the selector shares its selections (`from_rank_zero`).

    Args:
        ids: the task id of each row of the dataset, in order; None: the selector's ids.
        count: number of tasks per selection: those of one batch, over all ranks.
        copies: repeats of each position in a row, such as for the rollouts of a group.
        passes: repeats of the whole chunk before the next selection.
        length: of one iteration, in positions; default: as many whole chunks as fit into the number of rows.
        saves_run: include the selector's state in this sampler's state, which a `StatefulDataLoader` saves; loading it
            rewinds the run. Use no loader workers then: they run ahead of the training.

    Raises ValueError: an id is repeated, there are fewer than `count`, or one of the selector's is missing.
    """

    _is_endless = False

    def __iter__(self) -> Iterator[int]:
        return (position for position, _ in self._begin())


class SelectedTasks(_Chosen, IterableDataset[dict[str, Any]]):
    """Rows of selected tasks, each with its `task_id` and the `selection_id` for its report.

    It is infinite unless a length, in rows, is given, so a trainer needs a number of steps. It selects in the process
    that iterates over it: use no loader workers, in which it raises RuntimeError. All ranks get the same rows if the
    selector shares its selections.

    rows: a list, a Hugging Face dataset, or any other sequence of mappings.
    count: number of tasks per selection.
    ids, saves_run: as in `SelectorSampler`, and the errors too.
    """

    def __init__(
        self,
        selector: Selector,
        rows: Sequence[Mapping[str, Any]],
        *,
        count: int,
        ids: Sequence[str] | None = None,
        length: int | None = None,
        saves_run: bool = False,
    ) -> None:
        super().__init__(selector, count=count, ids=ids, length=length, saves_run=saves_run)
        self._rows = rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if get_worker_info() is not None:
            raise RuntimeError("SelectedTasks can't be used in a loader's worker; set num_workers=0")
        return (
            {**self._rows[position], "task_id": self._ids[position], "selection_id": selection}
            for position, selection in self._begin()
        )


def selected(loader: Loader, selector: Selector, *, count: int) -> Loader:
    """Return a loader like the given one of a map-style dataset, with rows of selected tasks.

    It has the same dataset, batches and length, and loads in the trainer's own process, so that no task is selected
    before the evidence is known. The state of a `StatefulDataLoader` includes the selector's; loading it rewinds the
    run.

    selector: its ids are those of the dataset's rows, in order.
    count: number of tasks per selection: those of a training step.
    """
    chosen = type(loader)(
        loader.dataset,
        batch_size=loader.batch_size,
        sampler=SelectorSampler(selector, count=count, saves_run=True),
        collate_fn=loader.collate_fn,
        drop_last=loader.drop_last,
        pin_memory=loader.pin_memory,
    )
    return cast(Loader, chosen)
