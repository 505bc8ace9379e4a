"""Who writes records: `governance.changes`, and a few that are named here with the reason.

Read as text: a call of a method that writes, anywhere in the four apps. What the tables are that such a call writes to
cannot be told from the text alone, so every module with such a call is named, whatever it writes.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
APPS = ("routing", "telemetry", "budgets", "governance")

METHODS = frozenset(
    {
        "save", "asave", "delete", "adelete", "create", "acreate", "get_or_create", "aget_or_create",
        "update_or_create", "aupdate_or_create", "bulk_create", "abulk_create", "bulk_update", "abulk_update",
        "raw_delete",
    }
)  # fmt: skip
"""Methods that write. `update` is also a dictionary's, and versioned records refuse it themselves."""

THE_DOOR = "governance/changes/door.py"

EXPLAINED = {
    "routing/models/versions.py": "the records' own refusals and counters, beneath the door",
    "telemetry/models.py": "the refusal of a second save, beneath every row that is written once",
    "governance/audit/trail.py": "adds entries, inside the transaction of a change",
    "budgets/models.py": "the refusal of a second save, beneath every entry of the ledger",
    "budgets/crossings.py": "adds crossings of thresholds: nobody's change, and told on the budget's page",
    "budgets/ledger.py": "opens accounts; what is booked in them is nobody's change, and too much for a trail",
    "budgets/refusals.py": "adds calls that were refused, of each budget the first: as crossings are",
    "budgets/retention.py": "removes entries that are not kept any longer, and keeps their sums",
    "telemetry/rows.py": "adds rows of calls: nobody's change, and too many for a trail",
    "telemetry/usage.py": "removes hours of usage that are not kept any longer",
    "telemetry/outcomes.py": "adds a caller's reports on answers: nobody's change, and too many for a trail",
    "governance/access/roles.py": "groups, which are rows of Django's and made after migrating, by nobody",
    "governance/replays.py": "names that callers give to calls: nobody's change, and too many for a trail",
    "governance/shared_state/table.py": "removes leases and the like, which are no records",
    "governance/alerts/outbox.py": "adds alerts to be sent: nobody's change",
    "governance/safekeeping.py": "removes sealed content when its time is over",
    "governance/submissions/intake.py": "adds calls that programs hand in: nobody's change, and too many for a trail",
    "governance/submissions/claims.py": "adds the sealed outcome of such a call",
    "governance/submissions/sweeping.py": "removes rows of such calls that ended long ago",
    "governance/demo/operator.py": "the demo's log-ins, which are users and no records of ours",
    "governance/demo/removal.py": "the documented exception: takes the demo's rows away, and says so in the trail",
    "governance/admin/records.py": "asks formsets what they hold, with commit=False",
}


def writes(file: Path) -> list[int]:
    """Lines that call a method that writes."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS
    ]


def writers() -> dict[str, list[int]]:
    found = {}
    for app in APPS:
        for file in sorted((ROOT / app).rglob("*.py")):
            if "migrations" not in file.parts and (lines := writes(file)):
                found[file.relative_to(ROOT).as_posix()] = lines
    return found


def test_records_are_written_by_the_door_and_by_nobody_else() -> None:
    assert {path: lines for path, lines in writers().items() if path not in EXPLAINED} == {
        THE_DOOR: writers()[THE_DOOR]
    }


def test_nothing_is_explained_that_does_not_write() -> None:
    assert set(EXPLAINED) <= set(writers())


def test_the_admin_commits_nothing_itself() -> None:
    source = (ROOT / "governance/admin/records.py").read_text(encoding="utf-8")
    calls = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS
    ]
    for call in calls:
        assert [(each.arg, ast.unparse(each.value)) for each in call.keywords] == [("commit", "False")]


@pytest.mark.parametrize("statement", ["record.save()", "Price.objects.create(x=1)", "rows.filter(x=1).delete()"])
def test_a_writer_is_recognised(statement: str, tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(f"def change():\n    {statement}\n", encoding="utf-8")
    assert writes(file) == [2]
