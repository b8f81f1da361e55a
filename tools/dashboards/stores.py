"""Below the requests: what replicas lean on, what they keep, and their processes."""

from tools.dashboards.board import Row
from tools.dashboards.of_replicas import AT, JOB, of_runs
from tools.dashboards.panels import Panel, Steps

LAGS: Steps = ((None, "green"), (1, "orange"))

STORES = Row(
    "What it leans on, and what it keeps",
    [
        Panel(
            "Stores by replica",
            {"{{instance}} {{store}}": f"min by (instance, store) (bots_store_up{{{AT}}})"},
            "1 while it answers. Down for one replica alone: its network; for all: the store.",
            "none",
            most=1,
        ),
        Panel(
            "Ready",
            {"{{instance}}": f"min by (instance) (bots_ready{{{AT}}})"},
            "1 while the replica wants requests. 0 for long: its log says what it waits for.",
            "none",
            most=1,
        ),
        Panel(
            "Reports that are not in the belief yet",
            {"{{dataset}}/{{run}}": of_runs("unfolded_entries")},
            "Stays above 0: Redis and SQL are apart, or replicas have too little processor time. BotsLagging fires"
            " after 5 minutes.",
            "short",
            steps=LAGS,
        ),
        Panel(
            "Journals",
            {"{{dataset}}/{{run}}": of_runs("journal_bytes")},
            "About how large they are in SQL. Grows with every report; set BOTS_KEEP_JOURNAL_DAYS if it may not.",
            "bytes",
        ),
        Panel(
            "Journal entries",
            {"{{dataset}}/{{run}}": of_runs("journal_entries")},
            "Falls when retention removes old ones. Grows far faster than steps: reports come in many small pieces.",
            "short",
        ),
        Panel(
            "Age of journals",
            {"{{dataset}}/{{run}}": f"time() - {of_runs('journal_oldest_entry_timestamp_seconds')}"},
            "Since the oldest entry that is kept. Above BOTS_KEEP_JOURNAL_DAYS for hours: no snapshot stands for"
            " it; look for not_pruned in the log.",
            "s",
        ),
        Panel(
            "Snapshots",
            {"{{dataset}}/{{run}}": of_runs("snapshot_bytes")},
            "Size in SQL of the stored states.",
            "bytes",
        ),
        Panel(
            "Number of snapshots",
            {"{{dataset}}/{{run}}": of_runs("snapshots")},
            "Grows without end: somebody stores them on demand; those are kept forever.",
            "short",
        ),
        Panel(
            "Age of the last snapshot",
            {"{{dataset}}/{{run}}": f"time() - {of_runs('last_snapshot_timestamp_seconds')}"},
            "An active run stores one every BOTS_SNAPSHOT_EVERY entries. Grows for an active run: look for"
            " snapshot_not_saved in the log.",
            "s",
        ),
    ],
)

PROCESSES = Row(
    "The processes",
    [
        Panel(
            "Processor",
            {"{{instance}}": f"sum by (instance) (rate(process_cpu_seconds_total{{{JOB}}}[$__rate_interval]))"},
            "Cores that are kept busy. A process uses one at most, nearly: near 1 a worker, add workers or replicas.",
            "none",
        ),
        Panel(
            "Memory",
            {"{{instance}}": f"sum by (instance) (process_resident_memory_bytes{{{JOB}}})"},
            "Twice BOTS_CACHE_BYTES plus about 1 GiB is usual. More: fewer bytes for the cache, or more memory.",
            "bytes",
        ),
        Panel(
            "Open files",
            {"{{instance}}": f"max by (instance) (process_open_fds{{{JOB}}} / process_max_fds{{{JOB}}})"},
            "Share of what the process may open: connections, mostly. Near 1 it refuses new ones: raise LimitNOFILE.",
            "percentunit",
            most=1,
            steps=((None, "green"), (0.8, "orange")),
        ),
        Panel(
            "Up for",
            {"{{instance}}": f"time() - max by (instance) (process_start_time_seconds{{{JOB}}})"},
            "Falls to 0 again and again: the process dies; its log or the kernel's says of what.",
            "s",
            width=12,
        ),
        Panel(
            "Versions",
            {"processes": f"count by (version, python, numpy) (bots_build_info{{{AT}}})"},
            "More than one line: replicas of two versions are at work.",
            "short",
            kind="table",
            by="version",
            width=12,
        ),
    ],
)
