"""The adapter for miles, against a service: with the real files of a checkout, and with the protocol they follow."""

import os
import re

import pytest
import yaml

from bots_client import Client
from tests.trainers.hosts import blocks, create_pool, evidence_of, service_in
from tests.trainers.slimes import NAMES, PROTOCOL, Sample, arguments, finish, names, sample_type
from tests.trainers.sources import adapter_on

SOURCE = os.environ.get("MILES_SOURCE")
ADAPTER = "bots_client.integrations.miles"
BEST = ["math-20", "math-3", "math-11", "math-7"]

# What the data source's imports want of an inference engine, which it never calls.
ENGINE: dict[str, dict[str, object]] = {
    "sglang": {},
    "sglang.srt": {},
    "sglang.srt.entrypoints": {},
    "sglang.srt.entrypoints.openai": {"encoding_dsv4": None},
    "sglang.srt.entrypoints.openai.protocol": {"Tool": dict},
}


def renamed(modules):
    """miles began as a copy of slime, and its modules have the same names in a package of its own."""
    return {re.sub("^slime", "miles", name): members for name, members in modules.items()}


@pytest.fixture(scope="module")
def bots(tmp_path_factory):
    with service_in(tmp_path_factory.mktemp("miles")) as client:
        yield client


@pytest.fixture(scope="module", params=["protocol", "source"])
def adapter(request):
    """Our module, on one miles or the other."""
    if request.param == "source" and SOURCE is None:
        pytest.skip("MILES_SOURCE names no checkout of miles: its real files are not run")
    path = SOURCE if request.param == "source" else None
    with adapter_on("miles", path=path, protocol=renamed(PROTOCOL), stand_ins=ENGINE) as module:
        yield module


@pytest.fixture
def dataset(bots: Client, adapter, request) -> str:
    kind = "protocol" if sample_type(adapter) is Sample else "real"
    name = f"{request.node.originalname}-{kind}"
    create_pool(bots, name, NAMES, first=BEST)
    return name


@pytest.fixture
def sourcing(adapter, dataset: str, tmp_path):
    """Make data sources; in the end their clients are closed."""
    sources = []

    def source(**changes):
        own = {
            "bots_dataset": dataset,
            "chat_template_path": None,
            "fully_async": False,
            "rollout_all_samples_process_path": f"{ADAPTER}.report_all_samples",
        }
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
    adapter.report_all_samples(source.args, groups, source.get_samples)  # miles hands over the method
    assert evidence_of(bots, dataset, NAMES) == {BEST[0]: (1, 3), BEST[1]: (4, 0), BEST[2]: (0.5, 3.5)}
    assert (bots.run(dataset).step, bots.run(dataset).leased) == (1, 0)


def test_groups_that_miles_put_back_come_first(adapter, sourcing):
    source = sourcing(partial_rollout=True)
    put_back, done = source.get_samples(2)
    finish(adapter, done, [1, 0, 0, 0])
    adapter.report_all_samples(source.args, [done], source.get_samples)
    source.add_samples([put_back])
    again, new = names(source.get_samples(2))
    assert (again, new != again) == (BEST[0], True)


def test_loading_a_checkpoint_rewinds(bots: Client, adapter, sourcing, dataset):
    source = sourcing()
    for rollout in range(2):
        groups = source.get_samples(1)
        finish(adapter, groups[0], [1, 0, 0, 0])
        adapter.report_all_samples(source.args, groups, source)
        source.save(rollout)
    sourcing().load(0)
    assert (bots.run(dataset).step, bots.run(dataset).epoch) == (1, 1)


@pytest.mark.parametrize(
    ("changes", "fix"),
    [
        ({"fully_async": True, "rollout_all_samples_process_path": None}, "leave it out"),
        (
            {"rollout_all_samples_process_path": None},
            f"pass --rollout-all-samples-process-path {ADAPTER}.report_all_samples",
        ),
    ],
)
def test_a_setup_that_would_report_no_group_is_refused_with_its_fix(sourcing, changes, fix):
    with pytest.raises(ValueError, match=re.escape(fix)):
        sourcing(**changes)


def test_the_page_names_what_there_is(adapter):
    (options,) = (yaml.safe_load(block) for block in blocks("miles.md", "yaml"))
    named = [path.rpartition(".") for path in options.values() if str(path).startswith("bots_client")]
    assert [(module, callable(getattr(adapter, name))) for module, _, name in named] == [(ADAPTER, True)] * 3
