"""README and tutorial, as a newcomer with this environment runs them: the tutorial trains with TRL."""

import pytest

from tests.docs.newcomer import PAGES, copy, read


@pytest.mark.parametrize("page", PAGES)
def test_a_newcomer_gets_through_a_page(page):
    with copy() as checkout:
        assert read(page, checkout) > 0
