"""`bots compare-beliefs`: which belief fits a run."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from bots_service.cli.connection import AsJson, Dataset, RunName, Url, connected
from bots_service.cli.output import count, number, show, table

if TYPE_CHECKING:
    from bots_service.core.comparison import BeliefComparison
    from bots_service.core.pool import Pool
    from bots_service.moving import JournalHeader


def compare_beliefs(dataset: Dataset, run: RunName = "default", url: Url = None, as_json: AsJson = False) -> None:
    """Fold a run's journal here under each belief, and show how wrong its predictions would have been.

    Smaller errors are better. Predictions from elsewhere are left out.
    """
    with connected(url) as client:
        journal = b"".join(client.export_run(dataset, run))
        tasks = b"".join(client.download_tasks(dataset))
    found = comparison_of(journal, tasks)
    caption = f"steps with outcomes: {count(found.steps)}, rollouts: {count(found.rollouts)}"
    rows = ((one.belief, number(one.log_loss, 4), number(one.brier, 4)) for one in found.beliefs)
    show(asdict(found), lambda: table("belief  >log loss  >Brier", rows, caption=caption), as_json=as_json)


def comparison_of(journal: bytes, tasks: bytes) -> "BeliefComparison":
    """Return the comparison for an exported run and its dataset's tasks."""
    from bots_service.core.comparison import compared
    from bots_service.core.entries import Entry
    from bots_service.core.run_settings import RunSettings, settings_from
    from bots_service.moving import read_entry, read_header
    from bots_service.storage.sql.codecs import decode_body

    first, *lines = journal.splitlines()
    header = read_header(first)
    pool = asyncio.run(_pool(header, tasks))
    entries = []
    for place, line in enumerate(lines, 2):
        saved = read_entry(line, place)
        # Predictions tell other profiles apart: without them, all are known from the start.
        profiles = pool.profiles if header.predictions else saved.profiles
        entries.append(Entry(saved.seq, saved.epoch, profiles, decode_body(bytes(saved.body).decode())))
    others = {"tracker": RunSettings(), "bots": settings_from({"belief": "bots"})}
    return compared(entries, settings_from(header.settings), others, pool)


async def _pool(header: "JournalHeader", tasks: bytes) -> "Pool":
    """Return the tasks as the run's dataset sees them."""
    from bots_service.api.task_formats.text import read_ndjson
    from bots_service.dataset_builder import DatasetBuilder, DatasetHeader
    from bots_service.records import DatasetFacts

    async def chunks() -> AsyncIterator[bytes]:
        yield tasks

    file = await read_ndjson(chunks())
    models, chosen = file.header.reference_models or (), header.tasks
    builder = DatasetBuilder(DatasetHeader(models))
    async for block in file.blocks(len(models)):
        builder.add(block)
    facts = DatasetFacts("", models, chosen.reference_order, chosen.offset_tags, 0, 0, {}, "")
    return builder.build(facts)[2]
