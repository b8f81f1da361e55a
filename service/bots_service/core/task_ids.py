"""The ids of a dataset's tasks, packed: a million ids of about 12 characters take 31 MB (`TaskIds.nbytes`)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Tasks, frozen, is_first

SEARCHED = 65_536  # ids looked through at once: a search needs little memory, which stays in the cache


class TaskIds(Sequence[str]):
    """Ids by task index, and task indices by id, by hashes of this process, which never leave it, in a sorted array."""

    def __init__(self, text: bytes, ends: NDArray[np.int64], hashes: NDArray[np.int64]) -> None:
        """Take UTF-8 ids that stand one after the other. ends: [N] where each ends; `GrowingTaskIds` makes them."""
        self._text = text
        self._ends = np.concatenate([np.zeros(1, np.int64), ends])
        self._by_hash = hashes.argsort(kind="stable").astype(np.int32)
        self._hashes = hashes[self._by_hash]

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, task: int) -> str:  # type: ignore[override]  # slices are not needed here
        if not 0 <= task < len(self):
            raise IndexError(task)
        return self._text[self._ends[task] : self._ends[task + 1]].decode()

    def take(self, tasks: Tasks) -> list[str]:
        """Return the ids of some tasks; several times faster than one by one."""
        starts, ends = self._ends.take(tasks).tolist(), self._ends.take(tasks + 1).tolist()
        return [self._text[start:end].decode() for start, end in zip(starts, ends, strict=True)]

    @property
    def nbytes(self) -> int:
        """How much memory the ids take."""
        return len(self._text) + self._ends.nbytes + self._hashes.nbytes + self._by_hash.nbytes

    def find(self, ids: Sequence[str]) -> Tasks:
        """Return the index of each id, -1 where there is none, [n]."""
        if len(self) == 0:
            return frozen(np.full(len(ids), -1, np.int32))
        wanted = np.fromiter(map(hash, ids), np.int64, len(ids))
        places = self._hashes.searchsorted(wanted)
        tasks = self._by_hash.take(places, mode="clip")  # nearly all are right
        if (candidates := self.take(tasks)) == ids:
            return frozen(tasks)
        asked = zip(ids, candidates, tasks.tolist(), wanted.tolist(), places.tolist(), strict=True)
        found = [task if one == candidate else self._at(one, *where) for one, candidate, task, *where in asked]
        return frozen(np.array(found, np.int32))

    def containing(self, text: str) -> Tasks:
        """Return, sorted, the tasks whose id contains this text of at least one character; ASCII letters of any case.

        Takes as long as there are bytes, and up to a hundred times longer where the text often begins to be found.
        """
        # In UTF-8 a character's bytes stand nowhere but where the character does, and lower() changes ASCII alone.
        part = np.frombuffer(text.encode().lower(), np.uint8)
        pieces = (self._containing(part, first) for first in range(0, len(self), SEARCHED))
        return frozen(np.concatenate([np.empty(0, np.int32), *pieces]))

    def _containing(self, part: NDArray[np.uint8], first: int) -> Tasks:
        """Return those of the tasks from `first` on, at most SEARCHED, whose id contains these bytes."""
        ends = self._ends[first : first + SEARCHED + 1]
        whole = np.frombuffer(self._text[ends[0] : ends[-1]].lower(), np.uint8)
        hits = np.flatnonzero(whole[: max(len(whole) - len(part) + 1, 0)] == part[0])
        for place, byte in enumerate(part[1:], 1):
            hits = hits[whole[hits + place] == byte]
        hits += ends[0]
        tasks = ends.searchsorted(hits, "right") - 1
        tasks = tasks[hits + len(part) <= ends[tasks + 1]]  # not the end of one id and the beginning of the next
        return (first + tasks[is_first(tasks)]).astype(np.int32)

    def _at(self, task_id: str, wanted: int, place: int) -> int:
        """Return the task of this id, looking from `place` on where the hashes are the wanted one; -1 if none is."""
        while place < len(self) and self._hashes[place] == wanted:
            task = int(self._by_hash[place])
            if self[task] == task_id:
                return task
            place += 1
        return -1

    def first_repeat(self) -> tuple[int, int] | None:
        """Return two tasks that have the same id, the earlier one first; None if all differ."""
        places = np.flatnonzero(self._hashes[1:] == self._hashes[:-1])
        # By task, not by hash: the same tasks are refused with the same words in every process.
        for place in places[self._by_hash[places + 1].argsort()].tolist():
            end = place + 1
            while end < len(self) and self._hashes[end] == self._hashes[place]:
                one, other = sorted((int(self._by_hash[place]), int(self._by_hash[end])))
                if self[one] == self[other]:
                    return one, other
                end += 1
        return None


class GrowingTaskIds:
    """Ids that come some at a time."""

    def __init__(self) -> None:
        self._texts: list[bytes] = []
        self._lengths: list[NDArray[np.int64]] = []
        self._hashes: list[NDArray[np.int64]] = []

    def add(self, ids: Sequence[str]) -> None:
        """Add the next ids."""
        encoded = [task_id.encode() for task_id in ids]
        self._texts.append(b"".join(encoded))
        self._lengths.append(np.fromiter(map(len, encoded), np.int64, len(encoded)))
        self._hashes.append(np.fromiter(map(hash, ids), np.int64, len(ids)))

    def packed(self) -> TaskIds:
        """Return the ids that came; `TaskIds.first_repeat` knows whether they differ."""
        nothing = np.empty(0, np.int64)
        hashes = np.concatenate([nothing, *self._hashes])
        return TaskIds(b"".join(self._texts), np.cumsum(np.concatenate([nothing, *self._lengths])), hashes)
