"""Metrics as text: of this process, or of all workers of a service, told apart by a label."""

from collections.abc import Mapping

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest

MEDIA_TYPE = CONTENT_TYPE_PLAIN_0_0_4
LABEL = b"worker"


def exposition(registry: CollectorRegistry) -> bytes:
    """Return one process's metrics in Prometheus's text format."""
    return generate_latest(registry)


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
