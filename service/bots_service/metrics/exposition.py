"""The metrics of all workers of a service as one text, with a label for each worker."""

from collections.abc import Mapping

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

MEDIA_TYPE = CONTENT_TYPE_PLAIN_0_0_4


def merged(texts: Mapping[int, bytes]) -> bytes:
    """Return the metrics of several workers as one text, each series with the number of its worker.

    Args:
        texts: the metrics of each worker in Prometheus's text format, by the worker's number.
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
    label = b'worker="%d"' % worker
    name, brace, rest = sample.partition(b"{")
    if brace:
        return name + b"{" + label + b"," + rest
    name, _, value = sample.partition(b" ")
    return name + b"{" + label + b"} " + value
