"""What is done again and again, by whichever process runs Celery's beat. Doing it twice at a time does no harm."""

from typing import Any

SWEEP_SECONDS = 15.0
REMOVE_SECONDS = 600.0
LEDGER_SECONDS = 60.0
PRUNE_SECONDS = 6 * 3600.0

# A task that nobody took up before the next one is due is dropped: without workers they would pile up.
SCHEDULE: dict[str, dict[str, Any]] = {
    "sweep": {"task": "signalbox.sweep", "schedule": SWEEP_SECONDS, "options": {"expires": SWEEP_SECONDS}},
    "remove-old": {"task": "signalbox.remove_old", "schedule": REMOVE_SECONDS, "options": {"expires": REMOVE_SECONDS}},
    "sweep-ledger": {
        "task": "signalbox.sweep_ledger",
        "schedule": LEDGER_SECONDS,
        "options": {"expires": LEDGER_SECONDS},
    },
    "prune-ledger": {
        "task": "signalbox.prune_ledger",
        "schedule": PRUNE_SECONDS,
        "options": {"expires": PRUNE_SECONDS},
    },
}
