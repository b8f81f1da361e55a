"""The selector for whoever loads data with PyTorch: a sampler, an iterable dataset, and one choice for all ranks."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import torch.distributed
from torch.utils.data import DataLoader, IterableDataset, Sampler, get_worker_info

from bots_client import Selector
from bots_client._selector import checked_ids

T = TypeVar("T")
Loader = TypeVar("Loader", bound=DataLoader[Any])


def from_rank_zero(ask: Callable[[], T]) -> T:
    """Return what rank 0 was answered, on every rank; all must call it. Hand it to `Selector(share=from_rank_zero)`.

    Without an initialised process group there is one process, which just asks.

    Raises:
        RuntimeError: rank 0 could not ask; there it is the error itself.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return ask()
    if torch.distributed.get_rank() != 0:
        return cast(T, _received())
    try:
        answer = ask()
    except Exception as error:
        _send(None, f"{type(error).__name__}: {error}")  # else the other ranks would wait for ever
        raise
    _send(answer, None)
    return answer


def to_rank_zero(things: Sequence[T]) -> list[T]:
    """Return the things of all ranks on rank 0, in the order of the ranks, and none on the others; all must call it.

    Without an initialised process group they are those that were given.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return list(things)
    of_ranks: list[list[T]] = [[] for _ in range(torch.distributed.get_world_size())]
    torch.distributed.all_gather_object(of_ranks, list(things))
    return [] if torch.distributed.get_rank() else [thing for of_rank in of_ranks for thing in of_rank]


def _send(answer: object, failure: str | None) -> None:
    torch.distributed.broadcast_object_list([answer, failure], src=0)


def _received() -> object:
    box: list[Any] = [None, None]
    torch.distributed.broadcast_object_list(box, src=0)
    answer, failure = box
    if failure is not None:
        raise RuntimeError(f"rank 0 could not ask: {failure}")
    return answer


@dataclass(slots=True)
class _Place:
    """How far an iteration is: what is left of its chunk as (position, selection id), and how many were given."""

    left: deque[tuple[int, str]] = field(default_factory=deque)
    given: int = 0


class _Chosen:
    """The positions of rows, chunk by chunk as the service chooses their tasks; one question per chunk.

    copies: how often each position comes in a row; passes: how often the whole chunk comes; length: None: no end;
    saves_run: its state holds the selector's, too.
    """

    def __init__(
        self,
        selector: Selector,
        ids: Sequence[str] | None,
        count: int,
        *,
        copies: int = 1,
        passes: int = 1,
        length: int | None = None,
        saves_run: bool = False,
    ) -> None:
        self._ids = checked_ids(selector.ids if ids is None else ids)
        self._positions = {task: position for position, task in enumerate(self._ids)}
        if not 1 <= count <= len(self._ids):
            raise ValueError(f"{count} tasks cannot be chosen from {len(self._ids)} rows")
        missing = next((task for task in selector.ids if task not in self._positions), None)
        if missing is not None:
            raise ValueError(f"no row has the id {missing!r}, which the selector may choose")
        self._selector = selector
        self._count, self._copies, self.passes = count, copies, passes
        self._length = length
        self._saves_run = saves_run
        self._place = _Place()
        self._next: _Place | None = None  # where the next iteration begins, if not at the beginning

    @property
    def chunk(self) -> int:
        """How many positions one choice gives, in all its passes."""
        return self._count * self._copies * self.passes

    def _begin(self) -> Iterator[tuple[int, str]]:
        """Begin an iteration, where it was told to."""
        place, self._next = self._next or _Place(), None
        self._place = place
        return self._give(place)

    def _give(self, place: _Place) -> Iterator[tuple[int, str]]:
        while self._length is None or place.given < self._length:
            if not place.left:
                place.left.extend(self._choose())
            place.given += 1
            yield place.left.popleft()

    def _choose(self) -> list[tuple[int, str]]:
        selection = self._selector.next(self._count)
        chosen = [(self._positions[task], selection.selection_id) for task in selection.ids]
        return [one for _ in range(self.passes) for one in chosen for _ in range(self._copies)]

    def skip(self, count: int) -> None:
        """Let the next iteration begin with so many that will not be used, and ask for none of them.

        For loaders that resume by running over what was consumed, as Hugging Face's `skip_first_batches` does: position
        0 stands for each of them. A chunk that is skipped in part only is asked for, and comes with what is left of it.
        """
        whole = count // self.chunk * self.chunk
        self._next = _Place(deque([(0, "")] * whole))

    def __len__(self) -> int:
        if self._length is None:
            raise TypeError("these tasks have no end: pass length=")
        return self._length

    def state_dict(self) -> dict[str, Any]:
        """Return how far the iteration is, as plain values; with `saves_run` where the run stands, too."""
        place = self._next or self._place
        run = {"selector": self._selector.state_dict()} if self._saves_run else {}
        return {"left": [list(one) for one in place.left], "given": place.given, **run}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration go on from there; it asks for nothing that was given before.

        With `saves_run` the run rewinds.
        """
        if self._saves_run:
            self._selector.load_state_dict(state["selector"])
        # A selection made before a rewind is void; the evidence of its tasks then counts as of now.
        left = deque(
            (int(position), "" if self._saves_run else str(selection)) for position, selection in state["left"]
        )
        if self._saves_run:
            self._selector.handed_out({self._ids[position] for position, _ in left})
        self._next = _Place(left, int(state["given"]))


class SelectorSampler(_Chosen, Sampler[int]):
    """Positions of a map-style dataset, in the order in which the service chooses their tasks.

    It asks in the loader's own process, once per chunk, so it goes with any number of workers. Every rank gets the same
    positions if the selector shares its choices (`from_rank_zero`).

    Args:
        selector: whom to ask.
        ids: the task id of each row of the dataset, in its order; None: the selector's are.
        count: how many tasks to choose at once: those of one batch, of all ranks together.
        copies: how often each position comes in a row, as for the rollouts of a group.
        passes: how often the whole chunk comes before the next is chosen.
        length: of one iteration, in positions; default: as many whole chunks as one pass over the rows would fill.
        saves_run: its state, which a `StatefulDataLoader` saves with its own, holds the selector's too, and loading it
            rewinds the run. With loader workers that state would be taken ahead of the training: use none.

    Raises:
        ValueError: an id is there twice, there are fewer than `count`, or one of the selector's is missing.
    """

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
        super().__init__(selector, ids, count, copies=copies, passes=passes, length=length, saves_run=saves_run)
        if length is None:
            self._length = len(self._ids) // count * self.chunk

    def __iter__(self) -> Iterator[int]:
        return (position for position, _ in self._begin())


class SelectedTasks(_Chosen, IterableDataset[dict[str, Any]]):
    """Rows of a dataset as the service chooses them: each with its `task_id`, and its `selection_id` to report with.

    It has no end, unless a length is given, so a trainer needs a number of steps. It asks in the process that iterates
    over it: use no loader workers. Every rank gets the same rows if the selector shares its choices.

    Args:
        selector: whom to ask.
        rows: a list, a Hugging Face dataset, whatever gives a row as a mapping for its position.
        count: how many tasks to choose at once.
        ids: the task id of each row, in the rows' order; None: the selector's are.
        length: how many rows to give, in all; None: no end.
        saves_run: as of `SelectorSampler`.

    Raises:
        ValueError: as of `SelectorSampler`.
        RuntimeError: a loader's worker iterates over it.
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
        super().__init__(selector, ids, count, length=length, saves_run=saves_run)
        self._rows = rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if get_worker_info() is not None:
            raise RuntimeError("SelectedTasks asks in the process that trains: set the loader's num_workers to 0")
        return (
            {**self._rows[position], "task_id": self._ids[position], "selection_id": selection}
            for position, selection in self._begin()
        )


def selected(loader: Loader, selector: Selector, *, count: int) -> Loader:
    """Return a loader like the given one, whose rows come as the service chooses their tasks.

    It has the same dataset, batches and length, and loads in the trainer's own process, so that nothing is chosen ahead
    of the evidence. The state of a `StatefulDataLoader` holds the selector's, and loading it rewinds the run.

    Args:
        loader: of a map-style dataset, as the trainer built it.
        selector: whom to ask; its ids are those of the dataset's rows, in their order.
        count: how many tasks to choose at once: those of a training step.
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
