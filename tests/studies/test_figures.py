"""The figures in the studies' prose are those of the kept results, each sentence with its own."""

from statistics import fmean

import pytest

from studies.pages import PAGES
from studies.references import shown_payment
from studies.results import kept
from studies.tables import measure_named
from tests.studies.sentences import SENTENCES

KEPT = kept()


def text_of(page: str) -> str:
    """Return a page with single spaces."""
    return " ".join((PAGES / page).read_text("utf-8").split())


def figure(study: str, measure: str, **labels: str) -> float:
    """Return the mean over seeds of a measure of the one cell with these labels; `_` in a name stands for a space."""
    wanted = {name.replace("_", " "): value for name, value in labels.items()}
    found = [one for one in KEPT if one.study == study and wanted.items() <= one.labels.items()]
    assert len({str(one.labels) for one in found}) == 1, wanted
    values = [measure_named(measure).value(one.measures) for one in found]
    return fmean(value for value in values if value is not None)


@pytest.mark.parametrize(("page", "sentence", "asked"), SENTENCES)
def test_a_sentence_has_the_figures_of_the_results(page, sentence, asked):
    assert sentence.format(*(figure(*each[:2], **each[2]) for each in asked)) in text_of(page)


def paid(pool: str, references: str) -> str:
    """Return by which step references of BOTS were paid."""
    runs = {
        name: {one.seed: one.measures for one in KEPT if one.study == "references" and one.labels == labels}
        for name in (references, "none")
        for labels in ({"pool": pool, "references": name, "run": "BOTS"},)
    }
    return shown_payment([(ours, runs["none"][seed]) for seed, ours in runs[references].items()])


def test_the_page_says_when_references_were_paid():
    few, own = "as measured, 4 attempts", "the model itself, before training"
    places = [
        ("recorded run", few),
        ("reasoning gym", few),
        ("recorded run", "the weaker alone"),
        ("reasoning gym", own),
    ]
    found = [paid(*place) for place in places]
    sentence = (
        f"The two models' four attempts were paid after {found[0]} steps on the recorded run and after {found[1]} on "
        f"reasoning gym, 16 attempts of the model itself before training after {found[2]} and {found[3]}."
    )
    assert sentence in text_of("references.md")
    assert paid("recorded run", "as measured") == paid("reasoning gym", "as measured") == "not in the run"
