"""Tasks for trainers that ask for one after the other."""

from bots_client import Selection, Selector


class TaskBuffer:
    """Chosen tasks that wait to be handed out: the service is asked for a batch at a time.

    A question for one task takes as long as one for a batch, and trainers that ask one by one wait for each.

    Args:
        selector: whom to ask.
        batch: how many tasks to ask for, as many as make up a training step: the belief changes with each step, so a
            task that waited longer would be chosen by an old one.
    """

    def __init__(self, selector: Selector, batch: int) -> None:
        self._selector = selector
        self._batch = batch
        self._left: list[tuple[str, Selection]] = []

    def take(self, count: int) -> list[tuple[str, Selection]]:
        """Return so many tasks, each with its selection."""
        while len(self._left) < count:
            wanted = max(self._batch, count - len(self._left))
            selection = self._selector.next(min(wanted, len(self._selector.ids)))
            self._left += [(task, selection) for task in selection.ids]
        taken, self._left = self._left[:count], self._left[count:]
        return taken

    def clear(self) -> None:
        """Forget what waits, as of a run that was taken back to a checkpoint."""
        self._left = []
