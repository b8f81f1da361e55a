"""Rewards that come one by one, in processes that have no Selector."""

import logging
import threading
from collections import defaultdict
from typing import Any, NamedTuple

from bots_client import InvalidRequestError, Outcome, ResilientClient

GATHER_S = 1.0  # a step of 8192 rollouts from 8 processes then takes some hundred reports, not 8192

logger = logging.getLogger("bots_client")


class Origin(NamedTuple):
    """Where a reward's task came from: the service, the run, and the selection ("" where a trainer chose by itself)."""

    url: str
    dataset: str
    run: str
    selection_id: str


class RewardReports:
    """Rewards on their way to the service: gathered for a moment, then reported together, a report for each selection.

    It may be shared between threads. Nobody waits for a report, and no step is closed by one: that is for whoever
    knows where a step ends. A process that ends reports first what it gathered; one that is killed loses it.

    Args:
        gather_s: how long the first reward waits for others.
    """

    def __init__(self, gather_s: float = GATHER_S) -> None:
        self._gather_s = gather_s
        self._lock = threading.Lock()
        self._gathered: dict[Origin, dict[str, list[Any]]] = {}
        self._clock: threading.Timer | None = None
        self._clients: dict[str, ResilientClient] = {}

    def add(self, origin: Origin, task: str, reward: Any) -> None:
        """Take the reward of one rollout, in the run's reward range; what is no finite number is only logged."""
        try:
            Outcome.rewards(task, [reward])
        except InvalidRequestError as error:
            logger.warning("a reward is not reported: %s", error)
            return
        with self._lock:
            self._gathered.setdefault(origin, defaultdict(list))[task].append(reward)
            if self._clock is None:
                # Not a daemon: the process waits for it at its end.
                self._clock = threading.Timer(self._gather_s, self.flush)
                self._clock.start()

    def flush(self) -> None:
        """Report what is gathered, now."""
        with self._lock:
            if self._clock is not None:
                self._clock.cancel()
            gathered, self._gathered, self._clock = self._gathered, {}, None
        for origin, rewards in gathered.items():
            outcomes = [Outcome.rewards(task, given) for task, given in rewards.items()]
            self.client(origin.url).report(
                origin.dataset, outcomes, run=origin.run, selection=origin.selection_id, close_step=False
            )

    def client(self, url: str) -> ResilientClient:
        """Return the client of a service, made the first time."""
        with self._lock:
            if url not in self._clients:
                self._clients[url] = ResilientClient(url)
            return self._clients[url]
