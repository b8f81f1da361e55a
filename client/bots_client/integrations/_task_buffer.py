"""Tasks for trainers that request one at a time."""

from bots_client import Selection, Selector
from bots_client._models import SelectedTask


class TaskBuffer:
    """A buffer of selected tasks, filled in batches: selecting one task takes as long as selecting a batch.

    Args:
        selector: selects the tasks.
        batch: number of tasks per selection: those of a training step, because each step changes the belief.
    """

    def __init__(self, selector: Selector, batch: int) -> None:
        self._selector = selector
        self._batch = batch
        self._left: list[tuple[SelectedTask, Selection]] = []

    def take(self, count: int) -> list[tuple[SelectedTask, Selection]]:
        """Return `count` tasks, each with its selection."""
        while len(self._left) < count:
            wanted = max(self._batch, count - len(self._left))
            selection = self._selector.next(min(wanted, len(self._selector.ids)))
            self._left += [(task, selection) for task in selection.tasks]
        taken, self._left = self._left[:count], self._left[count:]
        return taken

    def clear(self) -> None:
        """Drop the buffered tasks, for example after a rewind."""
        self._left = []
