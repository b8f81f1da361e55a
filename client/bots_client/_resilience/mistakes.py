"""Mistakes of the calling program, such as an unknown dataset: they are raised, which an outage never is."""

from typing import TypeVar

from bots_client._call import Call
from bots_client._errors import PROBLEM, BotsClientError, ConflictError, InvalidRequestError, RequestError
from bots_client._resilience.connection import Connection

T = TypeVar("T")

MARK = "_bots_mistake"  # attribute of an error that `Mistakes` raised
RANGE_FIX = (
    "report how many rollouts solved the task (successes=, or Outcome.counts), next to rewards of any range; or, if the"
    " lowest reward means failed and the highest solved, as -1 and 1 do, pass Selector(reward_range=(-1, 1))"
)
OUTCOMES = ("body", "outcomes")  # begins the location of an outcome's error; the outcome's index follows
SUBSET = ("body", "subset")  # the location of a selection's error, if the dataset has no such subset
FIXES = {
    f"{PROBLEM}unknown-dataset": "call Selector.register() first, which creates it, or correct the name",
    f"{PROBLEM}unknown-run": "call Selector.register() first, which creates it, or correct the name",
    f"{PROBLEM}unauthenticated": "pass api_key=, or set BOTS_API_KEY",
    f"{PROBLEM}forbidden": "pass the key of a trainer of this dataset with api_key= or BOTS_API_KEY",
    f"{PROBLEM}invalid-outcomes": f"rewards outside the run's range: {RANGE_FIX}. Missing tasks: Selector.register()",
}


def is_mistake(error: Exception) -> bool:
    """Return whether an error is a mistake of the calling program, which is to be raised into it."""
    return getattr(error, MARK, False)


class Mistakes:
    """One process's mistakes about one run, each kept until a call of the training's thread can raise it.

    A refusal is a mistake if it is about an outcome, or if the call has never worked in this process. A dataset that is
    gone or a key that was revoked in the middle of a training is none.

    Args:
        connection: to the service.
        raises: whether mistakes are raised; otherwise they are only logged, once a minute.
    """

    def __init__(self, connection: Connection, *, raises: bool) -> None:
        self._raises = raises
        self._connection = connection
        self._worked: set[str] = set()
        self._found: Exception | None = None

    def ask(self, call: Call[T], seconds: float, *, is_own: bool = True) -> T:
        """Send a call and return the service's answer; note a refusal that is a mistake.

        Args:
            call: to send.
            seconds: deadline.
            is_own: False: another process or an earlier job made the content.

        Raises:
            BotsClientError: any failure, raised within `seconds`.
        """
        try:
            answer = self._connection.ask(call, seconds)
        except RequestError as error:
            if self._is_mistake(error, call, is_own):
                self.note(error)
            raise
        self._worked.add(call.asked)
        return answer

    def note(self, error: Exception) -> None:
        """Log a mistake, and keep it for `raise_found`."""
        fix = FIXES.get(error.type) if isinstance(error, BotsClientError) else None
        if isinstance(error, BotsClientError) and fix is not None and not error.message.endswith(fix):
            error = type(error)(f"{error.message}\n  {fix}", error.problem)
        self._connection.log(error)
        if self._raises and self._found is None:
            self._found = error

    def raise_found(self) -> None:
        """Raise the mistake that was noted since the last call of this method, if there is one."""
        error, self._found = self._found, None
        if error is not None:
            vars(error)[MARK] = True
            raise error

    def _is_mistake(self, error: RequestError, call: Call[T], is_own: bool) -> bool:
        if isinstance(error, ConflictError):  # with what others do at the same time, or did before
            return False
        if (isinstance(error, InvalidRequestError) and not is_own) or is_about_subset(error):
            return False
        return call.asked not in self._worked or any(flaw.loc[:2] == OUTCOMES for flaw in error.errors)


def is_about_subset(error: RequestError) -> bool:
    """Return whether a selection was refused because the dataset does not have its subset any more."""
    return any(flaw.loc == SUBSET for flaw in error.errors)
