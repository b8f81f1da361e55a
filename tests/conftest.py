"""How hard random tests try, how long a test may take, and the servers that tests share.

Of these there is one of each a pytest process, started when asked for.

TEST_PROFILE is `default`, `ci` (fewer examples, the same each time) or `thorough`.
"""

import gc
import signal
from collections.abc import Generator, Iterator
from types import FrameType

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from bots_service.storage.sql.migrate import upgrade
from tests.servers import PostgresServer, RedisServer, running
from tests.sizes import PROFILE, SOAK, examples

SOAK_TIMEOUT_S = 7200.0  # the faults give up by themselves after an hour

# On a busy machine a slow example says nothing about the code, nor does one that is drawn slowly.
settings.register_profile("default", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("default"), derandomize=True, max_examples=examples(100))
settings.register_profile("thorough", parent=settings.get_profile("default"), max_examples=2000)
settings.load_profile(PROFILE)
if PROFILE == "ci":
    # Hypothesis also draws numbers that stand in our modules, of those imported so far: which they are depends on the
    # tests that a process ran before, and so on the machine's speed.
    vars(providers)["_get_local_constants"] = lambda: vars(providers)["_local_constants"]  # none


class TimedOutError(BaseException):
    """A test took too long.

    Hypothesis takes an Exception, and pytest's own, for the failure of an example: it would try that again, and hang.
    """


@pytest.fixture(autouse=True, scope="session")
def spool_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep reports that tests leave undelivered out of your own folder."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("BOTS_SPOOL", str(tmp_path_factory.mktemp("spool")))
        yield


@pytest.hookimpl(tryfirst=True)  # before pytest-timeout reads it
def pytest_configure(config: pytest.Config) -> None:
    """Give the long tests their time."""
    if SOAK and config.option.timeout is None:
        config.option.timeout = SOAK_TIMEOUT_S


def pytest_collection() -> None:
    """Collect no garbage while modules are loaded and tests are made: all of that stays to the end."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage from now on, and look at nothing that was made so far."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Trace no random tests: what they reach is a matter of luck, and a trace takes up to twice the processor time.

    Nor are long tests traced that reach nothing that no other does: they carry `no_cover`.
    """
    if config.pluginmanager.hasplugin("_cov"):
        for item in items:
            if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
                item.add_marker(pytest.mark.no_cover)


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer() -> Generator[None, object, object]:
    """Raise what nobody catches where pytest-timeout would let the test fail."""
    result = yield
    fail = signal.getsignal(signal.SIGALRM)

    def end(number: int, frame: FrameType | None) -> None:
        __tracebackhide__ = True  # where the test hangs is what one looks for
        assert callable(fail)
        try:
            fail(number, frame)
        except pytest.fail.Exception as failure:
            raise TimedOutError(failure.msg) from None

    signal.signal(signal.SIGALRM, end)
    return result


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL for all tests that don't kill it, nor ask what is on the disk."""
    with running(PostgresServer(fsync="off", full_page_writes="off", max_connections="300")) as server:
        yield server


@pytest.fixture(scope="session")
def migrated_postgres(postgres: PostgresServer) -> str:
    """The URL of a database with its tables, to be copied: that is quicker than migrating."""
    url = postgres.new_database()
    upgrade(url)
    return url


@pytest.fixture
def postgres_url(postgres: PostgresServer, migrated_postgres: str) -> Iterator[str]:
    """The URL of a fresh database with its tables, for one test."""
    url = postgres.new_database(like=migrated_postgres)
    yield url
    postgres.drop_database(url)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A Redis for all tests that don't kill it. Tests share it, so each names its own keys, or empties it first."""
    with running(RedisServer()) as server:
        yield server
