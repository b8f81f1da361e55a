"""The adapters for forks of slime, against a service: with files of a checkout, and with the protocol they follow."""

import os
import re
from dataclasses import dataclass

import pytest

from bots_client import Client
from tests.trainers.hosts import create_pool, evidence_of
from tests.trainers.slimes import NAMES, PROTOCOL, SAMPLES, Sample, arguments, finish, names, sample_type
from tests.trainers.sources import Modules, adapter_on

BEST = ["math-20", "math-3", "math-11", "math-7"]


@dataclass(frozen=True)
class ForkOfSlime:
    """What a fork has of its own.

    name: of its package, too.
    data_source: the module of its data source.
    stand_ins: what its data source's imports want of an inference engine, which it never calls.
    own: arguments that slime doesn't have.
    asynchronous: arguments for its fully asynchronous rollout.
    """

    name: str
    data_source: str
    stand_ins: Modules
    own: dict[str, object]
    asynchronous: dict[str, object]

    @property
    def source(self) -> str | None:
        """The folder of a checkout."""
        return os.environ.get(f"{self.name.upper()}_SOURCE")

    @property
    def adapter(self) -> str:
        return f"bots_client.integrations.{self.name}"

    @property
    def protocol(self) -> Modules:
        """It began as a copy of slime: its modules have the same names in a package of its own, but for one of some."""
        source, packages = self.data_source, self.data_source.split(".")
        named = {re.sub("^slime", self.name, name): members for name, members in PROTOCOL.items()}
        moved = named.pop(f"{self.name}.rollout.data_source")
        return {**named, **{".".join(packages[:count]): {} for count in (1, 2)}, source: moved}


MILES = ForkOfSlime(
    "miles",
    "miles.rollout.data_source",
    {
        "sglang": {},
        "sglang.srt": {},
        "sglang.srt.entrypoints": {},
        "sglang.srt.entrypoints.openai": {"encoding_dsv4": None},
        "sglang.srt.entrypoints.openai.protocol": {"Tool": dict},
    },
    {"chat_template_path": None, "fully_async": False},
    {"fully_async": True, "rollout_all_samples_process_path": None},
)
VIME = ForkOfSlime(
    "vime",
    "vime.data.data_source",
    {},
    {
        "rollout_data_transport": "object-store",
        "rollout_function_path": "vime.rollout.vllm_rollout.generate_rollout",
    },
    {"rollout_function_path": "vime.rollout.fully_async_rollout.generate_rollout_fully_async"},
)
FORKS = [MILES, VIME]


@pytest.fixture(scope="module", params=FORKS, ids=lambda fork: fork.name)
def fork(request) -> ForkOfSlime:
    return request.param


@pytest.fixture(scope="module", params=["protocol", "source"])
def adapter(request, fork: ForkOfSlime):
    """Our module, on one fork or the other."""
    if request.param == "source" and fork.source is None:
        pytest.skip(f"{fork.name.upper()}_SOURCE names no checkout of {fork.name}: its real files are not run")
    path = fork.source if request.param == "source" else None
    with adapter_on(fork.name, path=path, protocol=fork.protocol, stand_ins=fork.stand_ins) as module:
        yield module


@pytest.fixture
def dataset(bots: Client, adapter, fork: ForkOfSlime, request) -> str:
    kind = "protocol" if sample_type(adapter) is Sample else "real"
    name = f"{request.node.originalname}-{fork.name}-{kind}"
    create_pool(bots, name, NAMES, first=BEST)
    return name


@pytest.fixture
def sourcing(adapter, fork: ForkOfSlime, dataset: str, tmp_path):
    """Make data sources; in the end their clients are closed."""
    sources = []

    def source(**changes):
        report = f"{fork.adapter}.report_all_samples"
        own = {"bots_dataset": dataset, "rollout_all_samples_process_path": report, **fork.own}
        sources.append(adapter.ServiceDataSource(arguments(tmp_path, **{**own, **changes})))
        return sources[-1]

    yield source
    for each in sources:
        each.selector.client.close()


def test_groups_are_selected_by_the_service_and_reported_once(bots: Client, adapter, sourcing, dataset):
    source = sourcing()
    groups = source.get_samples(3)
    assert names(groups) == BEST[:3]
    for group, rewards in zip(groups, ([1, 0, 0, 0], [1, 1, 1, 1], [0.5, 0, 0, 0]), strict=True):
        finish(adapter, group, rewards)
    adapter.report_all_samples(source.args, groups, source.get_samples)  # both hand over the method
    assert evidence_of(bots, dataset, NAMES) == {BEST[0]: (1, 3), BEST[1]: (4, 0), BEST[2]: (0.5, 3.5)}
    assert (bots.run(dataset).step, bots.run(dataset).leased) == (1, 0)


def test_loading_a_checkpoint_rewinds(bots: Client, adapter, sourcing, dataset):
    source = sourcing()
    for rollout in range(2):
        groups = source.get_samples(1)
        finish(adapter, groups[0], [1, 0, 0, 0])
        adapter.report_all_samples(source.args, groups, source)
        source.save(rollout)
    sourcing().load(0)
    assert (bots.run(dataset).step, bots.run(dataset).epoch) == (1, 1)


def test_a_setup_that_would_report_no_group_is_refused_with_its_fix(sourcing, fork: ForkOfSlime):
    with pytest.raises(ValueError, match="leave it out"):
        sourcing(**fork.asynchronous)
    fix = f"pass --rollout-all-samples-process-path {fork.adapter}.report_all_samples"
    with pytest.raises(ValueError, match=re.escape(fix)):
        sourcing(rollout_all_samples_process_path=None)


# --- vime ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fork", [VIME], indirect=True, ids=["vime"])
def test_groups_that_vime_gave_up_before_they_began_are_free_again(bots: Client, adapter, sourcing, dataset):
    source = sourcing(partial_rollout=True)
    given_up, begun, done = source.get_samples(3)
    finish(adapter, done, [1, 0, 0, 0])
    adapter.report_all_samples(source.args, [done], source.get_samples)
    source.add_samples([begun])
    assert bots.run(dataset).leased == 2
    again, other = source.get_samples(2)
    assert names([again]) == names([begun])
    finish(adapter, again, [1] * SAMPLES)
    finish(adapter, other, [1] * SAMPLES)
    adapter.report_all_samples(source.args, [again, other], source.get_samples)
    assert bots.run(dataset).leased == 0
    assert names([given_up])[0] not in evidence_of(bots, dataset, names([given_up]))
