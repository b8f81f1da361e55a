"""A buffer of selected tasks, for trainers that request them one at a time."""

from bots_client import Selection, Selector
from bots_client._models import SelectedTask


class TaskBuffer:
    """Selected tasks, kept until the trainer requests them: selecting one takes as long as selecting a batch.

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
        self._left = []
