"""What makes each alert fire, as series over minutes in promtool's notation, and what nearly does but must not."""

POOL = '{dataset="pool", run="default", instance="a"}'
SELECTS = 'bots_http_requests_total{{route="/select", status="{}", instance="a"}}'


def growing(name: str, a_minute: float) -> tuple[str, str]:
    return f"{name}{POOL}", f"0+{a_minute}x200"


# alert -> (the labels that it fires with, series that make it fire, series that must not)
CASES: dict[str, tuple[dict[str, str], list[tuple[str, str]], list[tuple[str, str]]]] = {
    "BotsEffectiveTaskRatioCollapsed": (
        {"dataset": "pool", "run": "default"},
        [growing("bots_effective_tasks_total", 1), growing("bots_reported_tasks_total", 32)],
        [growing("bots_effective_tasks_total", 16), growing("bots_reported_tasks_total", 32)],
    ),
    "BotsRunStalled": (
        {"dataset": "pool", "run": "default"},
        [(f"bots_last_selection_timestamp_seconds{POOL}", "60x200"), (f"bots_leased_tasks{POOL}", "32x200")],
        [(f"bots_last_selection_timestamp_seconds{POOL}", "0+60x200"), (f"bots_leased_tasks{POOL}", "32x200")],
    ),
    "BotsSelectionNarrow": (
        {"dataset": "pool", "run": "default"},
        [(f"bots_narrow{POOL}", "1x200")],
        [(f"bots_narrow{POOL}", "0x200")],
    ),
    "BotsVerifierSuspect": (
        {"dataset": "pool", "run": "default"},
        [(f"bots_verifier_alarms{POOL}", "0x20 2x180")],
        [(f"bots_verifier_alarms{POOL}", "0x200")],
    ),
    "BotsDown": (
        {"job": "bots", "instance": "a"},
        [('up{job="bots", instance="a"}', "0x200")],
        [('up{job="bots", instance="a"}', "1x200"), ('up{job="else", instance="b"}', "0x200")],
    ),
    "BotsStoreDown": (
        {"instance": "a", "store": "redis"},
        [
            ('bots_store_up{instance="a", store="redis"}', "0x200"),
            ('bots_store_up{instance="a", store="sql"}', "1x200"),
        ],
        [('bots_store_up{instance="a", store="redis"}', "1x200")],
    ),
    "BotsErrorBudgetBurns": (
        {},
        [(SELECTS.format(200), "0+90x200"), (SELECTS.format(503), "0+10x200")],
        [(SELECTS.format(200), "0+999x200"), (SELECTS.format(503), "0+1x200"), (SELECTS.format(409), "0+90x200")],
    ),
}
