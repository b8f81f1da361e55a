"""Each change that breaks a client of the API is named, and those that break nobody are not."""

import copy
import json
from pathlib import Path

import pytest

from tools import breaking_changes as checker
from tools.breaking_changes import breaking_changes, may_break

OLD = json.loads((Path(__file__).parents[1] / "released/0.1.0/openapi.json").read_text("utf-8"))


def changed(change):
    new = copy.deepcopy(OLD)
    change(new)
    return new


def schema(document, name):
    return document["components"]["schemas"][name]


def field(document, name, of):
    return schema(document, of)["properties"][name]


def parameter(document, name, method="get", path="/datasets/{dataset}/runs/{run}/tasks"):
    return next(each for each in document["paths"][path][method]["parameters"] if each["name"] == name)


# What is done to the document, and the one line that says so.
BREAKING = {
    "a path goes": (lambda new: new["paths"].pop("/prune"), "POST /prune: it is gone"),
    "a method goes": (
        lambda new: new["paths"]["/datasets/{dataset}"].pop("get"),
        "GET /datasets/{dataset}: it is gone",
    ),
    "an operation is renamed": (
        lambda new: new["paths"]["/select"]["post"].update(operationId="choose"),
        "POST /select: generated clients call it choose, not select_tasks",
    ),
    "a route wants a key": (
        lambda new: new["paths"]["/livez"]["get"].update(security=[{"key": ["read"]}]),
        "GET /livez: it needs a key now",
    ),
    "a scope no longer suffices": (
        lambda new: new["paths"]["/select"]["post"].update(security=[{"key": ["admin"]}]),
        "POST /select: a key with the scope select no longer suffices",
    ),
    "a parameter goes": (
        lambda new: parameter(new, "tag").update(name="label"),
        "GET /datasets/{dataset}/runs/{run}/tasks query tag: it is gone",
    ),
    "a parameter becomes required": (
        lambda new: parameter(new, "tag").update(required=True),
        "GET /datasets/{dataset}/runs/{run}/tasks query tag: it is required now",
    ),
    "a header becomes required": (
        lambda new: parameter(new, "Idempotency-Key", "post", "/select").update(required=True),
        "POST /select header Idempotency-Key: it is required now",
    ),
    "a parameter's limit shrinks": (
        lambda new: parameter(new, "limit")["schema"].update(maximum=100),
        "GET /datasets/{dataset}/runs/{run}/tasks query limit: maximum was 1000, now 100",
    ),
    "a parameter's pattern changes": (
        lambda new: parameter(new, "Idempotency-Key", "post", "/select")["schema"].update(pattern="^[a-z]+$"),
        "POST /select header Idempotency-Key: pattern was ^[ -~]{1,128}$, now ^[a-z]+$",
    ),
    "a medium of a body goes": (
        lambda new: new["paths"]["/datasets/{dataset}"]["put"]["requestBody"]["content"].pop("application/x-ndjson"),
        "PUT /datasets/{dataset} body: application/x-ndjson is gone",
    ),
    "a body becomes required": (
        lambda new: new["paths"]["/livez"]["get"].update(requestBody={"required": True, "content": {}}),
        "GET /livez body: it is required now",
    ),
    "a success goes": (
        lambda new: new["paths"]["/datasets/{dataset}"]["put"]["responses"].pop("201"),
        "PUT /datasets/{dataset}: it no longer answers 201",
    ),
    "a medium of an answer goes": (
        lambda new: new["paths"]["/metrics"]["get"]["responses"]["200"]["content"].clear(),
        "GET /metrics 200: text/plain; version=0.0.4; charset=utf-8 is gone",
    ),
    "a field of a request goes": (
        lambda new: schema(new, "SelectRequest")["properties"].pop("quotas"),
        "SelectRequest.quotas: it is gone",
    ),
    "a field of a request becomes required": (
        lambda new: schema(new, "SelectRequest")["required"].append("run"),
        "SelectRequest.run: it is required now",
    ),
    "a field of a request changes its type": (
        lambda new: field(new, "uniform_share", "SelectRequest").update(type="string"),
        "SelectRequest.uniform_share: was number, now string",
    ),
    "a number of a request becomes whole": (
        lambda new: field(new, "uniform_share", "SelectRequest").update(type="integer"),
        "SelectRequest.uniform_share: was number, now integer",
    ),
    "a field of a request may no longer be null": (
        lambda new: field(new, "close_step", "ReportRequest")["anyOf"].pop(),
        "ReportRequest.close_step: was null, now boolean",
    ),
    "a field that is left out means something else": (
        lambda new: field(new, "run", "SelectRequest").update(default="main"),
        "SelectRequest.run: left out it meant 'default', now 'main'",
    ),
    "a value of a request goes": (
        lambda new: field(new, "strategy", "RunRequest")["enum"].remove("shuffle"),
        "RunRequest.strategy: 'shuffle' is refused now",
    ),
    "any text becomes one of a list": (
        lambda new: field(new, "description", "DatasetRequest")["anyOf"].__setitem__(0, {"enum": ["a"]}),
        "DatasetRequest.description: was string, now text of a list or null",
    ),
    "a request gets a lower bound": (
        lambda new: field(new, "seed", "RunRequest").update(minimum=0),
        "RunRequest.seed: what has no minimum 0 is refused now",
    ),
    "items of a request shrink": (
        lambda new: field(new, "exclude", "SelectRequest")["items"].update(maxLength=8),
        "SelectRequest.exclude[]: maxLength was 256, now 8",
    ),
    "values under any name change their type": (
        lambda new: field(new, "quotas", "SelectRequest")["additionalProperties"]["anyOf"].pop(),
        "SelectRequest.quotas.*: was number, now integer",
    ),
    "other fields are refused": (
        lambda new: field(new, "quotas", "SelectRequest").update(additionalProperties=False),
        "SelectRequest.quotas: other fields are refused now, or their names",
    ),
    "a place in a list changes its type": (
        lambda new: field(new, "prior", "RunRequest")["prefixItems"].__setitem__(1, {"type": "string"}),
        "RunRequest.prior[1]: was number, now string",
    ),
    "places in a list lose their meaning": (
        lambda new: field(new, "prior", "RunRequest").pop("prefixItems"),
        "RunRequest.prior: a list with a meaning for each place is another thing than one without",
    ),
    "a field of an answer goes": (
        lambda new: schema(new, "SelectedTask")["properties"].pop("draw"),
        "SelectedTask.draw: it is gone",
    ),
    "a field of an answer may be missing": (
        lambda new: schema(new, "SelectedTask")["required"].remove("mean"),
        "SelectedTask.mean: it may be missing now",
    ),
    "a field of an answer changes its type": (
        lambda new: field(new, "step", "SelectResponse").update(type="string"),
        "SelectResponse.step: was integer, now string",
    ),
    "a whole number of an answer gets fractions": (
        lambda new: field(new, "step", "SelectResponse").update(type="number"),
        "SelectResponse.step: was integer, now number",
    ),
    "a field of an answer may be null": (
        lambda new: schema(new, "SelectedTask")["properties"].update(
            mean={"anyOf": [{"type": "number"}, {"type": "null"}]}
        ),
        "SelectedTask.mean: was number, now null",
    ),
}


@pytest.mark.parametrize(("change", "said"), BREAKING.values(), ids=BREAKING)
def test_what_breaks_a_client_is_named(change, said):
    assert breaking_changes(OLD, changed(change)) == [said]


HARMLESS = {
    "nothing changes": lambda new: new,
    "a path comes": lambda new: new["paths"].update({"/news": new["paths"]["/livez"]}),
    "an optional field of a request comes": lambda new: schema(new, "SelectRequest")["properties"].update(
        seed={"type": "integer", "default": 0}
    ),
    "a field of an answer comes": lambda new: (
        schema(new, "SelectedTask")["properties"].update(tags={"type": "array"}),
        schema(new, "SelectedTask")["required"].append("tags"),
    ),
    "a field of a request may be left out": lambda new: schema(new, "RewindRequest")["required"].clear(),
    "a request may have more": lambda new: field(new, "count", "SelectRequest").update(maximum=10**6),
    "a value of a request comes": lambda new: field(new, "strategy", "RunRequest")["enum"].append("newest"),
    "a value of an answer comes": lambda new: field(new, "strategy", "SettingsInUse")["enum"].append("newest"),
    "a number of a request may have fractions": lambda new: field(new, "count", "SelectRequest").update(type="number"),
    "a refusal goes": lambda new: new["paths"]["/select"]["post"]["responses"].pop("408"),
    "a medium comes": lambda new: new["paths"]["/select"]["post"]["requestBody"]["content"].update(
        {"application/cbor": {"schema": {"type": "string"}}}
    ),
    "a route is for everybody": lambda new: new["paths"]["/select"]["post"].pop("security"),
    "words change": lambda new: schema(new, "SelectedTask").update(description="Another."),
}


@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS)
def test_what_breaks_nobody_is_not_named(change):
    assert breaking_changes(OLD, changed(change)) == []


def test_a_schema_that_holds_itself_is_compared_to_its_end():
    def nest(document):
        inner = {"anyOf": [{"$ref": "#/components/schemas/SelectedTask"}, {"type": "null"}]}
        schema(document, "SelectedTask")["properties"]["like"] = inner
        return document

    old = changed(nest)
    new = copy.deepcopy(old)
    assert breaking_changes(old, new) == []
    field(new, "draw", "SelectedTask")["anyOf"].append({"type": "string"})
    assert breaking_changes(old, new) == ["SelectedTask.draw: was number or null, now string"]


def test_a_schema_that_says_what_the_comparison_does_not_know_is_refused():
    new = changed(lambda new: field(new, "uniform_share", "SelectRequest").update(multipleOf=0.1))
    with pytest.raises(ValueError, match="the schema SelectRequest says multipleOf"):
        breaking_changes(OLD, new)


@pytest.mark.parametrize(
    ("old", "new", "may"),
    [
        ("0.1.0", "0.1.9", False),
        ("0.1.9", "0.2.0", True),
        ("0.9.0", "1.0.0", True),
        ("1.2.3", "1.3.0", False),
        ("1.2.3", "2.0.0", True),
    ],
)
def test_only_the_first_number_that_is_not_0_allows_to_break(old, new, may):
    assert may_break(old, new) is may


@pytest.fixture
def checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the check finds a document and what was released; it calls itself version 0.1.3."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checker, "__version__", "0.1.3")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/openapi.json").write_text(json.dumps(OLD), "utf-8")
    return tmp_path


def release(folder: Path, version: str, document) -> None:
    (folder / "tests/released" / version).mkdir(parents=True)
    (folder / "tests/released" / version / "openapi.json").write_text(json.dumps(document), "utf-8")


def test_the_check_compares_with_each_release_that_must_not_break(checked: Path, capsys: pytest.CaptureFixture):
    larger = changed(lambda new: new["paths"].update({"/gone": new["paths"]["/livez"]}))
    release(checked, "0.0.9", larger)
    release(checked, "0.1.0", OLD)
    assert checker.main() == 0
    assert capsys.readouterr().out == "API: nothing breaks 0.1.0\n"
    release(checked, "0.1.2", larger)
    assert checker.main() == 1
    assert capsys.readouterr().out == "breaks 0.1.2: GET /gone: it is gone\n"
