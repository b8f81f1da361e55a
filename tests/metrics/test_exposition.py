"""The text of several workers is one text, which Prometheus reads as it would read each of them."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from bots_service.serving.server import merged

TRICKY = 'a "b" {c} \\ d\ne'


def worker(number: int, *, is_complete: bool = True) -> bytes:
    disable_created_metrics()
    registry = CollectorRegistry()
    Gauge("plain", "No label, and { in its help", registry=registry).set(number)
    if is_complete:
        labelled = Counter("labelled", "With a label", ["name"], registry=registry)
        labelled.labels(TRICKY).inc(number + 1)
        Histogram("seconds", "Many lines", ["route"], registry=registry, buckets=(1.0,)).labels("/{x}").observe(0.5)
    return generate_latest(registry)


def samples(text: bytes) -> dict[tuple[str, str], list[tuple[str, dict[str, str], float]]]:
    """Return what a reader makes of a text: by name and type of the family, name, labels and value of each sample."""
    return {
        (family.name, family.type): [(sample.name, sample.labels, sample.value) for sample in family.samples]
        for family in text_string_to_metric_families(text.decode())
    }


def test_each_series_of_each_worker_is_there_once_with_its_number():
    texts = {number: worker(number, is_complete=number != 2) for number in range(3)}
    expected: dict[tuple[str, str], list[tuple[str, dict[str, str], float]]] = {}
    for number, text in texts.items():
        for family, own in samples(text).items():
            with_number = [(name, {**labels, "worker": str(number)}, value) for name, labels, value in own]
            expected[family] = expected.get(family, []) + with_number
    assert len(expected["seconds", "histogram"]) == 2 * 4
    assert samples(merged(texts)) == expected
    assert merged(texts).count(b"# TYPE") == 3


def test_values_and_label_values_stay_as_they_are():
    (sample,) = samples(merged({7: worker(4)}))["labelled", "counter"]
    assert sample == ("labelled_total", {"name": TRICKY, "worker": "7"}, 5.0)
