"""What the doctor finds at servers that take over from each other."""

from bots_service.doctor import Finding, Grade, examine
from bots_service.settings import Settings
from tests.versions.postgres_pairs import pair

OK, WARNING, PROBLEM = Grade.OK, Grade.WARNING, Grade.PROBLEM


def looked_at(**urls: str) -> dict[str, Finding]:
    return {each.about: each for each in examine(Settings(**urls))}  # type: ignore[arg-type]


def test_a_pair_of_which_the_standby_is_asynchronous_and_synchronous():
    for synchronous, grade in ((False, WARNING), (True, OK)):
        with pair(synchronous=synchronous) as postgres:
            found = looked_at(database_url=postgres.url)
            assert found["standbys"].grade is grade
            assert found["database role"].said == "primary"
            assert f"127.0.0.1:{postgres.standby.port}" in found["database"].said
            role = looked_at(database_url=postgres.standby_url)["database role"]
            assert (role.grade, "target_session_attrs=read-write" in role.advice) == (PROBLEM, True)


def test_who_waits_for_a_standby_that_is_not_there_is_found():
    with pair(synchronous=True) as postgres:
        postgres.standby.kill()
        found = looked_at(database_url=postgres.url)["standbys"]
        assert (found.grade, "every commit waits" in found.said) == (PROBLEM, True)
