"""The selector in the loader of a trainer that builds one itself, and saves its state and nothing else of the data.

Such a trainer keeps `StatefulDataLoader.state_dict()` in its checkpoints. What stands here puts the selector's state
into it, so that the run rewinds when the trainer resumes.
"""

from collections.abc import Mapping
from typing import Any

from torchdata.stateful_dataloader import StatefulDataLoader

from bots_client import Selector
from bots_client.integrations.torch import SelectedTasks, SelectorSampler


class SavedSampler(SelectorSampler):
    """A `SelectorSampler` whose state holds the selector's too: loading it rewinds the run."""

    def state_dict(self) -> dict[str, Any]:
        """Return how far the iteration is, and where the run stands."""
        return {**super().state_dict(), "selector": self._selector.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back there, with the run."""
        self._selector.load_state_dict(state["selector"])
        super().load_state_dict(state)


class SavedTasks(SelectedTasks):
    """`SelectedTasks` with a length, whose state holds the selector's too: loading it rewinds the run."""

    def __len__(self) -> int:
        if self._length is None:
            raise TypeError("these tasks have no end: pass length=")
        return self._length

    def state_dict(self) -> dict[str, Any]:
        """Return how far the iteration is, and where the run stands."""
        return {**super().state_dict(), "selector": self._selector.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back there, with the run."""
        self._selector.load_state_dict(state["selector"])
        super().load_state_dict(state)


def selected(loader: StatefulDataLoader, selector: Selector, *, count: int) -> StatefulDataLoader:
    """Return a loader like the given one, whose rows come as the service chooses their tasks.

    It has the same dataset, batches and length, and loads in the trainer's own process, so that nothing is chosen ahead
    of the evidence.

    Args:
        loader: of a map-style dataset, as the trainer built it.
        selector: whom to ask; its ids are those of the dataset's rows, in their order.
        count: how many tasks to choose at once: those of a training step.
    """
    return StatefulDataLoader(
        loader.dataset,
        batch_size=loader.batch_size,
        sampler=SavedSampler(selector, count=count),
        collate_fn=loader.collate_fn,
        drop_last=loader.drop_last,
        pin_memory=loader.pin_memory,
    )
