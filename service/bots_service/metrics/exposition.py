"""Metrics as text: of this process, or of all workers of a service, with a label for each."""

from collections.abc import Mapping
from functools import lru_cache

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry
from prometheus_client.utils import floatToGoString

MEDIA_TYPE = CONTENT_TYPE_PLAIN_0_0_4
LABEL = b"worker"
ENDINGS = {"counter": "_total", "info": "_info"}  # of the names of families, where their samples have them
CREATED = "_created"  # when each series began: as many samples again, for what nobody looks at
ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
KNOWN_LABELS = 4096  # sets of labels whose text is kept: those of runs, and some hundreds of routes and statuses


def exposition(registry: CollectorRegistry) -> bytes:
    """Return one process's metrics in Prometheus's text format.

    The same text as prometheus_client's own, which writes each sample's labels again and so holds up other requests for
    longer; without the time at which each series began. Knows counters, gauges, histograms and infos.
    """
    lines = []
    for family in registry.collect():
        name = family.name + ENDINGS.get(family.type, "")
        says = family.documentation.replace("\\", r"\\").replace("\n", r"\n")
        kind = "gauge" if family.type == "info" else family.type
        lines.append(f"# HELP {name} {says}\n# TYPE {name} {kind}\n")
        for sample in family.samples:
            if sample.name.endswith(CREATED):
                continue
            value = floatToGoString(sample.value)  # type: ignore[no-untyped-call]  # its authors left the type out
            lines.append(f"{sample.name}{_labels(tuple(sample.labels.items()))} {value}\n")
    return "".join(lines).encode()


@lru_cache(maxsize=KNOWN_LABELS)
def _labels(labels: tuple[tuple[str, str], ...]) -> str:
    """Return labels as they stand behind a name."""
    said = ",".join(f'{name}="{value.translate(ESCAPED)}"' for name, value in sorted(labels))
    return f"{{{said}}}" if said else ""


def merged(texts: Mapping[int, bytes]) -> bytes:
    """Return the metrics of several workers as one text, each series with the number of its worker.

    By lines, for parsing every sample would hold up this worker's other requests.

    Args:
        texts: by the number of the worker, what `exposition` gave there.
    """
    families: dict[bytes, list[bytes]] = {}  # the two lines that begin a family -> its samples
    for worker, text in sorted(texts.items()):
        head, samples = b"", list[bytes]()
        for line in text.splitlines():
            if line.startswith(b"# HELP"):
                head = line
            elif line.startswith(b"#"):
                samples = families.setdefault(head + b"\n" + line, [])
            else:
                samples.append(_labelled(line, worker))
    return b"".join(line + b"\n" for head, samples in families.items() for line in (head, *samples))


def _labelled(sample: bytes, worker: int) -> bytes:
    """Return a sample, `name{labels} value` or `name value`, with one more label."""
    label = b'%s="%d"' % (LABEL, worker)
    name, brace, rest = sample.partition(b"{")
    if brace:
        return name + b"{" + label + b"," + rest
    name, _, value = sample.partition(b" ")
    return name + b"{" + label + b"} " + value
