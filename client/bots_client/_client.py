"""`Client`: the calls of the service as methods."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote

from bots_client._errors import InvalidRequestError, ServiceError, UnreachableError
from bots_client._http import (
    ANSWER_BYTES,
    CALL_DEADLINE_S,
    NDJSON,
    Call,
    HttpClient,
    Progress,
    Source,
    Upload,
    given,
    into,
    key_header,
    nothing,
    page_of,
    path,
    run_path,
    upload_of,
    write_call,
)
from bots_client._inputs import (
    GivenSettings,
    Outcome,
    Task,
    Unpack,
    checked,
    checked_list,
    checked_number,
    wires_of_tasks,
    wrong_type,
)
from bots_client._models import (
    ApiKey,
    Calibration,
    Curve,
    Dataset,
    HistoryStep,
    ImportedRun,
    JournalEntry,
    Leases,
    NewApiKey,
    Overview,
    Receipt,
    Run,
    RunSummary,
    Selection,
    Subset,
    TaskBelief,
    TaskCounts,
    Version,
    WhoAmI,
)
from bots_client._tables import Listing

P = ParamSpec("P")
T = TypeVar("T")
Tasks = Iterable[Task] | Source

PAGE = 100  # items; the service's default, so that it never refuses it
TASK_BYTES = 1024  # of a selected task; most have about 120, and an id has at most 256 characters
UPLOAD_DEADLINE_S = 600.0  # a pool of a million tasks is some 100 MB, and the service checks every one
STREAM_DEADLINE_S = 60.0  # until the first bytes; the service computes a belief for every task of the pool
TRANSFER_DEADLINE_S = 3600.0  # a journal of a long run is some 100 MB, and is folded where it arrives


class Client(HttpClient):
    """A client of the BOTS selector, safe to share between threads. On asyncio, call it by `asyncio.to_thread`.

        with Client() as bots:
            selection = bots.select("guru", 32)
            bots.report("guru", [Outcome.counts(id, solved[id], 16) for id in selection.ids], selection=selection)

    What the calls have in common:
        limit: maximum number of items in a list; None: all.
        tasks, source: what is uploaded may be a file's path (an OSError if it can't be read), or a function
            that returns the bytes from the start (attempts are repeated). Both are streamed.
        media_type: of what is uploaded: application/x-ndjson; None: by the file's suffix.
        on_progress: called with the bytes sent and the total (None: unknown); starts at 0 again after a failed attempt.
        ids, tag, search: only these tasks; only tasks with this tag; only tasks whose ID contains this text, ignoring
            case.

    Args:
        url: http(s) URL of the service; None: BOTS_URL, or http://127.0.0.1:8765.
        api_key: None: BOTS_API_KEY, or no key.
        deadline_s: for each call with all its retries; of a stream until it begins, then for each further chunk. None:
            10 s, or what long calls such as uploads need. `within` gives a client with another one.
        retries: number of attempts and waits between them.
        headers: sent with every request.
        transport: httpx transport; tests pass the service itself.

    Raises ValueError: the url or the key is invalid.
    """

    def create_dataset(
        self,
        name: str,
        tasks: Tasks,
        reference_models: Sequence[str] = (),
        description: str = "",
        *,
        media_type: str | None = None,
        on_progress: Progress | None = None,
    ) -> Dataset:
        """Create a dataset; one with the same content is returned, with other content it is a ConflictError.

        Args:
            name: letters, digits, ".", "_" and "-".
            reference_models: in the order of the tasks' pass rates; leave it out where a file's first line does.
        """
        models = checked_list(reference_models, str, "reference_models")
        head = {
            name: value for name, value in {"reference_models": models, "description": description}.items() if value
        }
        upload = upload_of(tasks, wires_of_tasks, media_type, on_progress, head)
        return self._upload("PUT", path("datasets", name), Dataset, upload)

    def append_tasks(
        self, dataset: str, tasks: Tasks, *, media_type: str | None = None, on_progress: Progress | None = None
    ) -> Dataset:
        """Add tasks to a dataset: all of them, or none (ConflictError) if the dataset has one already."""
        upload = upload_of(tasks, wires_of_tasks, media_type, on_progress)
        return self._upload("POST", path("datasets", dataset, "tasks"), Dataset, upload)

    def download_tasks(self, dataset: str) -> Generator[bytes, None, None]:
        """Stream all tasks of a dataset as NDJSON that `create_dataset` reads; retired ones too."""
        return self._download(path("datasets", dataset, "tasks"), UPLOAD_DEADLINE_S)

    def make_subset(
        self, dataset: str, tasks: Tasks, *, media_type: str | None = None, on_progress: Progress | None = None
    ) -> Subset:
        """Make some of a dataset's tasks a subset, to select among them alone; only their ids count.

        The same tasks, in any order, are the same subset. A dataset keeps the 1,000 that were made last.
        """
        upload = upload_of(tasks, wires_of_tasks, media_type, on_progress)
        return self._upload("POST", path("datasets", dataset, "subsets"), Subset, upload)

    def retire_tasks(self, dataset: str, ids: Iterable[str]) -> Dataset:
        """Retire tasks: they are not selected until they are restored; their evidence stays in the journal."""
        content = {"ids": checked_list(ids, str, "ids")}
        return self._write("DELETE", path("datasets", dataset, "tasks"), Dataset, content)

    def restore_tasks(self, dataset: str, ids: Iterable[str]) -> Dataset:
        """Restore retired tasks: they can be selected again, with what is known of them."""
        content = {"ids": checked_list(ids, str, "ids")}
        return self._write("POST", path("datasets", dataset, "tasks", "restore"), Dataset, content)

    def dataset(self, name: str) -> Dataset:
        """Describe a dataset."""
        return self._get(Dataset, path("datasets", name))

    def datasets(self, *, limit: int | None = None) -> Listing[Dataset]:
        """List the datasets."""
        return self._list(Dataset, "datasets", path("datasets"), limit)

    def delete_dataset(self, name: str) -> None:
        """Permanently delete a dataset with its runs and their journals."""
        self.send(write_call("DELETE", path("datasets", name), nothing))

    def create_run(
        self,
        dataset: str,
        run: str,
        *,
        fork_run: str | None = None,
        fork_step: int | None = None,
        **settings: "Unpack[GivenSettings]",
    ) -> Run:
        """Create a run, or set all settings of an empty one, such as a new "default"; for others use `update_run`.

        Args:
            fork_run, fork_step: continue this run, from this step; None: from its current state.
            settings: fields of `Settings`; those left out take their defaults.
        """
        if fork_run is None and fork_step is not None:
            raise InvalidRequestError("fork_step is of another run; pass fork_run= too")
        fork = None if fork_run is None else given(run=fork_run, step=fork_step)
        return self._write("PUT", run_path(dataset, run), Run, {**settings, **given(fork=fork)})

    def update_run(self, dataset: str, run: str = "default", **settings: "Unpack[GivenSettings]") -> Run:
        """Change settings of a run from the next step on; those left out keep their values."""
        return self._write("PATCH", run_path(dataset, run), Run, settings)

    def run(self, dataset: str, run: str = "default") -> Run:
        """Describe a run: settings, step, capability, totals."""
        return self.send(Call("GET", run_path(dataset, run), into(Run), max_bytes=ANSWER_BYTES))

    def runs(self, dataset: str | None = None, *, limit: int | None = None) -> Listing[RunSummary]:
        """List how the runs of a dataset go, by name; None: those of all datasets."""
        chosen = given(dataset=dataset, sort="name").items()
        return self._list(RunSummary, "runs", path("overview"), limit, *chosen)

    def delete_run(self, dataset: str, run: str) -> None:
        """Permanently delete a run and its journal; "default" is emptied instead."""
        self.send(write_call("DELETE", run_path(dataset, run), nothing))

    def export_run(self, dataset: str, run: str = "default") -> Generator[bytes, None, None]:
        """Export a run's journal, as the chunks of a file with one entry a line: give them to its `writelines`."""
        return self._download(run_path(dataset, run, "export"), TRANSFER_DEADLINE_S)

    def import_run(
        self, source: Source, dataset: str, run: str = "default", *, on_progress: Progress | None = None
    ) -> ImportedRun:
        """Import a run from `export_run`, into a dataset with the same tasks: all of it or nothing.

        A ConflictError if the name is taken, or the run is of other tasks; an InvalidRequestError for a truncated or
        foreign file, or an entry that does not fold.
        """
        upload = upload_of(source, list, NDJSON, on_progress)
        return self._upload(
            "POST", run_path(dataset, run, "import"), ImportedRun, upload, deadline_s=TRANSFER_DEADLINE_S
        )

    def tasks(
        self,
        dataset: str,
        run: str = "default",
        *,
        ids: Iterable[str] = (),
        tag: str | None = None,
        search: str | None = None,
        segment: str | None = None,
        sort: str | None = None,
        limit: int | None = None,
    ) -> Listing[TaskBelief]:
        """List the tasks with the run's predicted success rates, page by page.

        Args:
            segment: untried, aborting, unsolved, teaching, solved or retired, as in `TaskBelief`; None: all that are
                not retired.
            sort: index (the pool's order), mean, distance (to the target), effective, variance, attempts, successes,
                visits or last_step; "-mean" descends.
        """
        chosen = _chosen(ids, tag=tag, search=search, segment=segment, sort=sort)
        return self._list(TaskBelief, "tasks", run_path(dataset, run, "tasks"), limit, *chosen)

    def count_tasks(
        self,
        dataset: str,
        run: str = "default",
        *,
        ids: Iterable[str] = (),
        tag: str | None = None,
        search: str | None = None,
    ) -> TaskCounts:
        """Count the tasks of each segment that `tasks` would list."""
        chosen = _chosen(ids, tag=tag, search=search)
        return self._get(_Counted, run_path(dataset, run, "tasks"), *chosen, ("limit", 1)).segments

    def history(
        self, dataset: str, run: str = "default", *, after_step: int | None = None, limit: int | None = None
    ) -> Listing[HistoryStep]:
        """List the closed steps of a run, oldest first; only those after `after_step`."""
        after = given(after_step=after_step).items()
        return self._list(HistoryStep, "history", run_path(dataset, run, "history"), limit, *after)

    def journal(
        self, dataset: str, run: str = "default", *, kinds: Iterable[str] = (), limit: int | None = None
    ) -> Listing[JournalEntry]:
        """List the journal of a run, newest entry first, including entries undone by a rewind.

        kinds: only entries of these kinds, of report, settings, rewind and probe; empty: all.
        """
        chosen = [("kind", kind) for kind in checked_list(kinds, str, "kinds")]
        return self._list(JournalEntry, "entries", run_path(dataset, run, "journal"), limit, *chosen)

    def leases(self, dataset: str, run: str = "default", *, limit: int = PAGE, ids: int = 5) -> Leases:
        """List the tasks in flight: at most 1000 leases, the first to expire, with up to 1000 ids of tasks each."""
        return self._get(Leases, run_path(dataset, run, "leases"), ("limit", limit), ("ids", ids))

    def put_probe(self, dataset: str, values: Mapping[str, float], run: str = "default") -> Run:
        """Put a number for each of some tasks, in place of those before; the run learns how much they tell.

        values: by task ID; in any unit: only their order counts, and whether more is harder is learned.
        """
        return self._write("PUT", run_path(dataset, run, "probe"), Run, {"values": dict(values)})

    def rewind(self, dataset: str, step: int, run: str = "default") -> Run:
        """Rewind a run to a step; reporting selections made before raises StaleEpochError."""
        where = run_path(dataset, run, "rewind")
        return self.send(write_call("POST", where, into(Run), {"step": checked_number(step, "step")}))

    def evaluate(
        self, dataset: str, values: Mapping[str, float], run: str = "default", *, step: int | None = None
    ) -> None:
        """Keep what was measured of the run's model, such as {"heldout/accuracy": 0.61}: the higher, the better.

        step: after so many closed steps; None: now. What is there of the same name and step is replaced.
        """
        content = given(values={name: checked_number(value, name) for name, value in values.items()}, step=step)
        return self.send(write_call("POST", run_path(dataset, run, "evaluations"), nothing, content))

    def finish(self, dataset: str, run: str = "default") -> None:
        """Say that training ended: the run is finished, until its next selection or report."""
        self.send(write_call("POST", run_path(dataset, run, "finish"), nothing))

    def curve(self, dataset: str, run: str = "default", *, points: int | None = None) -> Curve:
        """Return a run's history in at most so many points (1 to 2,000; None: 500), each of consecutive steps."""
        return self._get(Curve, run_path(dataset, run, "curve"), *given(points=points).items())

    def calibration(self, dataset: str, run: str = "default", *, steps: int | None = None) -> Calibration:
        """Compare predicted and observed success rates over the last steps (1 to 1,000; None: 200), in ten bins."""
        return self._get(Calibration, run_path(dataset, run, "calibration"), *given(steps=steps).items())

    def overview(
        self,
        *,
        search: str | None = None,
        dataset: str | None = None,
        status: str | None = None,
        attention: bool | None = None,
        sort: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Overview:
        """Return a page of summaries of all runs that the key reaches, and their sums.

        Args:
            search: only runs whose "dataset/run" contains this text, ignoring case.
            status, attention: only runs with this status (new, running, stalled, idle or finished); True: that need
                attention.
            sort: attention, name, last_step, step, effective_task_ratio, vs_uniform, evaluation or rollouts; "-step"
                descends; None: "-last_step". By "-attention", runs that need attention come first, then the others by
                their last step. By vs_uniform, healthy runs come first, whichever way.
            limit, cursor: maximum number of runs, 1 to 1,000, None: 50; `next_cursor` of the page before.
        """
        asked = given(
            search=search, dataset=dataset, status=status, attention=attention, sort=sort, limit=limit, cursor=cursor
        )
        return self._get(Overview, path("overview"), *asked.items())

    def summary(self, dataset: str, run: str = "default") -> RunSummary:
        """Return how a run goes: its status, its gain over uniform sampling, and a verdict with advice."""
        return self._get(RunSummary, run_path(dataset, run, "summary"))

    def select(
        self,
        dataset: str,
        count: int | None = None,
        *,
        run: str = "default",
        subset: str | None = None,
        tags: Iterable[str] | None = None,
        exclude: Iterable[str] | None = None,
        first: Iterable[str] | None = None,
        want_effective: int | None = None,
        idempotency_key: str | None = None,
    ) -> Selection:
        """Select the tasks to train on next; the run leases them until they are reported or the lease expires.

        Args:
            count: number of tasks; leave it out with want_effective.
            subset, tags: only tasks of this subset (of `make_subset`), with one of these tags.
            exclude: task IDs never to select.
            first: task IDs to select before any others, in flight or not, such as those in flight at a crash.
            want_effective: select as few tasks as are expected to give so many effective groups.
            idempotency_key: the same key returns the same tasks; None: a new key.

        Raises InvalidRequestError: an argument is invalid, or fewer tasks are available.
        """
        if (count is None) == (want_effective is None):
            raise TypeError("select: pass either count or want_effective")
        listed = given(tags=tags, exclude=exclude, first=first)
        content = given(
            dataset=checked(dataset, str, "dataset"),
            run=checked(run, str, "run"),
            count=None if count is None else checked_number(count, "count"),
            subset=None if subset is None else checked(subset, str, "subset"),
            **{name: checked_list(each, str, name) for name, each in listed.items()},
            want_effective=None if want_effective is None else checked_number(want_effective, "want_effective"),
        )
        call = write_call("POST", path("select"), into(Selection), content, key=idempotency_key)
        return self.send(_of_the_run(call, dataset, run, max_bytes=ANSWER_BYTES + TASK_BYTES * int(count or 0)))

    def report(
        self,
        dataset: str,
        outcomes: Iterable[Outcome],
        *,
        run: str = "default",
        selection: Selection | str | None = None,
        close_step: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Receipt:
        """Report rollout outcomes; once it returns, they are on disk and counted once.

        Args:
            outcomes: one or more per task; counts of one task within a step are added.
            selection: the selection of these tasks, or its ID, so that late evidence counts for its step.
            close_step: whether this report closes the training step; None: yes, unless the run has tasks_per_step.
            idempotency_key: reports with the same key count once; None: a new key.

        Raises, and nothing was recorded:
            InvalidRequestError: an outcome is invalid.
            StaleEpochError: the run was rewound since the selection.
        """
        if not isinstance(selection, Selection | str | None):
            raise wrong_type("selection", "a Selection or its id", selection)
        content = given(
            dataset=checked(dataset, str, "dataset"),
            run=checked(run, str, "run"),
            selection_id=selection.selection_id if isinstance(selection, Selection) else selection,
            close_step=close_step,
            outcomes=[outcome.as_wire() for outcome in checked_list(outcomes, Outcome, "outcomes")],
        )
        call = write_call("POST", path("report"), into(Receipt), content, key=idempotency_key)
        return self.send(_of_the_run(call, dataset, run, max_bytes=ANSWER_BYTES))

    def create_key(
        self, name: str, *, scopes: Iterable[str], datasets: Iterable[str], expires_in_s: float | None = None
    ) -> NewApiKey:
        """Create an API key. Only this response contains the secret `key`: store it safely. The first is an admin key.

        Args:
            scopes: any of read, select, report, admin.
            datasets: patterns of dataset names; "*" matches any characters, "?" one.
        """
        content = given(
            name=name,
            scopes=checked_list(scopes, str, "scopes"),
            datasets=checked_list(datasets, str, "datasets"),
            expires_in_seconds=expires_in_s,
        )
        return self._write("POST", path("keys"), NewApiKey, content)

    def keys(self, *, limit: int | None = None) -> Listing[ApiKey]:
        """List the API keys by ID, including revoked ones."""
        return self._list(ApiKey, "keys", path("keys"), limit)

    def revoke_key(self, key_id: str) -> None:
        """Revoke an API key by its ID, not the whole key, for URLs are logged; it stops working within 5 seconds."""
        if "_" in key_id:
            raise InvalidRequestError("that is a whole key; pass its id, the part between its underscores")
        self.send(write_call("DELETE", path("keys", key_id), nothing))

    def whoami(self) -> WhoAmI:
        """Return the name, scopes and datasets of the key in use."""
        return self._get(WhoAmI, path("whoami"))

    def version(self) -> Version:
        """Return the versions of the service and of what it runs on."""
        return self._get(Version, path("version"))

    def is_ready(self) -> bool:
        """Return whether the service accepts requests, degraded or not; False if it is unreachable."""
        return self._succeeds(path("readyz"))

    def is_live(self) -> bool:
        """Return whether the service's process responds; False if it is unreachable."""
        return self._succeeds(path("livez"))

    def _get(self, kind: type[T], where: str, *params: tuple[str, Any]) -> T:
        return self.send(Call("GET", where, into(kind), params))

    def _write(self, method: str, where: str, kind: type[T], content: Mapping[str, Any] | None = None) -> T:
        return self.send(write_call(method, where, into(kind), content))

    def _upload(
        self,
        method: str,
        where: str,
        kind: type[T],
        upload: tuple[Upload | bytes, str],
        *params: tuple[str, str],
        deadline_s: float = UPLOAD_DEADLINE_S,
    ) -> T:
        body, media_type = upload
        if isinstance(body, bytes):
            deadline_s = CALL_DEADLINE_S
        headers = {**key_header(None), "Content-Type": media_type}
        return self.send(Call(method, where, into(kind), params, body, headers, deadline_s))

    def _download(self, where: str, deadline_s: float, *params: tuple[str, str]) -> Generator[bytes, None, None]:
        return self.stream(Call("GET", where, bytes, params, deadline_s=deadline_s))

    def _list(self, kind: type[T], name: str, where: str, limit: int | None, *params: tuple[str, Any]) -> Listing[T]:
        """Return the items, in a page's field `name`, of a list; each page is requested when it is needed."""
        size = [("limit", limit)] if limit is not None and 0 < limit < PAGE else []
        call = Call("GET", where, page_of(kind, name), (*params, *size))
        return Listing(kind, self._items(call, limit))

    def _items(self, first: Call[tuple[tuple[T, ...], str | None]], left: int | None) -> Generator[T, None, None]:
        call, before = first, None
        while left is None or left > 0:
            items, cursor = self.send(call)
            yield from items[:left]
            left = None if left is None else left - len(items)
            if cursor is None:
                return
            if cursor == before:
                raise ServiceError(f"{first.asked}: the cursor {cursor!r} points to itself")
            call, before = replace(first, params=(*first.params, ("cursor", cursor))), cursor

    def _succeeds(self, where: str) -> bool:
        try:
            self.within(self._deadline_s, attempts=1).send(Call("GET", where, nothing))
        except (ServiceError, UnreachableError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class _Counted:
    """A page of tasks, of which only the counts are read."""

    segments: TaskCounts


class _Unsent:
    """Stands for a client whose methods are to return their calls instead of sending them."""

    def send(self, call: Call[T]) -> Call[T]:
        return call


def unsent(method: Callable[Concatenate[Client, P], T]) -> Callable[P, Call[T]]:
    """Return a method of `Client`, which does nothing but send, as a function that returns the call, for a queue."""
    return partial(method, _Unsent())  # type: ignore[arg-type, return-value]


def _of_the_run(call: Call[T], dataset: str, run: str, *, max_bytes: int) -> Call[T]:
    """Return the call with a bound for its answer, and a header by which a balancer may keep the run at one replica.

    The service ignores the header, so it may hold anything: a wrong name is refused for what the body says.
    """
    name = "/".join(quote(str(part), safe="", errors="replace") for part in (dataset, run))
    return replace(call, headers={**call.headers, "Bots-Run": name}, max_bytes=max_bytes)


def _chosen(ids: Iterable[str], **filters: str | None) -> list[tuple[str, str]]:
    return [*(("ids", task) for task in checked_list(ids, str, "ids")), *given(**filters).items()]
