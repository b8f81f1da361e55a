"""The figures in the prose of some pages are those of their tables, each sentence with its own."""

import pytest

from studies.catalogue import STUDIES
from studies.pages import PAGES
from studies.results import kept
from studies.tables import rendered
from tests.studies.table_sentences import SENTENCES, Place

KEPT = kept()


def cells_of(line: str) -> list[str]:
    """Return what stands in one line of a table."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def figure(place: Place) -> str:
    """Return what stands in one place of a table, without its interval."""
    study, table_name, row, heading = place
    (table,) = [table for table in STUDIES[study].tables if table.name == table_name]
    lines = rendered(STUDIES[study], table, [one for one in KEPT if one.study == study]).splitlines()
    column = cells_of(lines[0]).index(heading)
    (found,) = [cells for line in lines[2:] if (cells := cells_of(line))[: len(row)] == list(row)]
    return found[column].partition(" ±")[0]


@pytest.mark.parametrize(("page", "sentence", "places"), SENTENCES)
def test_a_sentence_has_the_figures_of_the_tables(page, sentence, places):
    text = " ".join((PAGES / page).read_text("utf-8").split())
    assert sentence.format(*map(figure, places)) in text
