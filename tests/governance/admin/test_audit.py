"""The audit trail in the admin: every change that somebody makes there is in it, and nothing of it can be changed."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from governance.admin.differences import action_words, channel_words, kind_words, spell_field
from governance.audit.trail import verify
from governance.changes.settings import store_setting
from governance.models import AccessKey, AuditEvent
from routing.models import EvaluationResult
from tests.authors import SOMEBODY
from tests.factories import (
    AccessKeyFactory,
    ConfigurationFactory,
    EvaluationResultFactory,
    LanguageModelFactory,
    ProviderFactory,
)
from tests.governance.admin.pages import column, sent_by, text_of, words_of

LIST = reverse("admin:governance_auditevent_changelist")
VERIFY = reverse("admin:governance_auditevent_verify")


def page(name: str, row: Any) -> str:
    return reverse(f"admin:{name}_change", args=[row.pk])


def change(operator: Client, address: str, **values: Any) -> Any:
    return operator.post(address, sent_by(operator.get(address), **values))


def last() -> AuditEvent:
    event: AuditEvent | None = AuditEvent.objects.select_related("revision").first()
    assert event is not None
    return event


def test_a_change_says_who_from_where_why_and_what(operator: Client) -> None:
    provider = ProviderFactory.create()
    address = page("routing_provider", provider)
    sent = sent_by(operator.get(address), region="eu-north", reason="They moved.")
    operator.post(address, sent, headers={"X-Request-ID": "order-7"}, REMOTE_ADDR="192.0.2.7")
    event = last()
    assert (event.author, event.channel, event.address, event.correlation, event.reason) == (
        "olivia", "admin", "192.0.2.7", "order-7", "They moved.",
    )  # fmt: skip
    assert event.revision is not None
    assert event.revision.changes == {"region": ("eu-central", "eu-north")}


def test_a_record_and_its_parts_are_one_change(operator: Client) -> None:
    model = LanguageModelFactory.create(priced=True)
    change(operator, page("routing_languagemodel", model), name="Faster", **{"prices-0-input_rate": "3"})
    event = last()
    assert AuditEvent.objects.count() == 1
    assert event.revision is not None
    assert set(event.revision.changes) == {"name", "prices"}
    shown = words_of(operator.get(page("governance_auditevent", event)))
    assert "2.50 / 10.00 USD" in shown
    assert "3.00 / 10.00 USD" in shown


def test_every_kind_of_action_is_in_the_trail(operator: Client) -> None:
    configuration = ConfigurationFactory.create()
    result = EvaluationResultFactory.create()
    for action in ("deactivate", "activate", "retire", "bring_back"):
        operator.post(
            reverse("admin:routing_configuration_changelist") + "?service=all",
            {"action": action, "_selected_action": [configuration.pk]},
        )
    operator.post(reverse("admin:routing_evaluationresult_delete", args=[result.pk]), {"post": "yes"})
    change(operator, reverse("admin:governance_settingvalue_change", args=["routing.callHistory"]), value="True")
    assert [event.action for event in AuditEvent.objects.order_by("number")] == [
        "changed", "changed", "retired", "broughtBack", "removed", "created",
    ]  # fmt: skip
    assert not EvaluationResult.objects.exists()
    assert set(AuditEvent.objects.values_list("author", flat=True)) == {"olivia"}
    assert verify().flaws == ()


def test_results_chosen_in_the_list_are_removed_one_by_one(operator: Client) -> None:
    results = [EvaluationResultFactory.create(golden_set=name) for name in ("one", "two")]
    chosen = {"action": "delete_selected", "_selected_action": [each.pk for each in results], "post": "yes"}
    operator.post(reverse("admin:routing_evaluationresult_changelist"), chosen)
    assert not EvaluationResult.objects.exists()
    assert [event.action for event in AuditEvent.objects.all()] == ["removed", "removed"]


def test_saving_a_page_as_it_is_leaves_no_entry(operator: Client) -> None:
    rows = {
        "routing_provider": ProviderFactory.create(),
        "routing_languagemodel": LanguageModelFactory.create(priced=True),
        "routing_configuration": ConfigurationFactory.create(listed=True),
        "governance_accesskey": AccessKeyFactory.create().record,
        "routing_evaluationresult": EvaluationResultFactory.create(),
    }
    for name, row in rows.items():
        assert change(operator, page(name, row), reason="No reason.").status_code == 302
    assert not AuditEvent.objects.exists()


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"q": "routing."}, 2),
        ({"q": "2"}, 1),
        ({"q": "#2"}, 1),
        ({"q": "someb"}, 2),
        ({"q": "body"}, 0),
        ({"q": "9" * 40}, 0),
        ({"action": "created"}, 1),
        ({"action": "retired"}, 0),
        ({"kind": "setting"}, 2),
        ({"kind": "key"}, 0),
        ({"author": "somebody"}, 2),
        ({"author": "olivia"}, 0),
        ({"channel": "command"}, 2),
    ],
)
def test_entries_are_found(operator: Client, query: dict[str, str], found: int) -> None:
    store_setting("routing.callHistory", True, author=SOMEBODY)
    store_setting("routing.callHistory", False, author=SOMEBODY)
    assert len(column(operator.get(LIST, query), "number")) == found


def test_the_page_that_verifies_says_what_is_wrong(operator: Client, auditor: Client) -> None:
    for value in (True, False):
        store_setting("routing.callHistory", value, author=SOMEBODY)
    assert "The trail is whole" not in text_of(operator.get(VERIFY))
    for somebody in (operator, auditor):
        assert "The trail is whole: 2 entries." in text_of(somebody.post(VERIFY))
    with connection.cursor() as cursor:
        cursor.execute("UPDATE governance_auditevent SET author = 'nobody' WHERE number = 1")
    assert "entry 1 was changed after it was written" in text_of(operator.post(VERIFY))


def test_the_page_that_verifies_is_for_those_who_may_look(client: Client, staff: Any) -> None:
    assert client.get(VERIFY).status_code == 302
    assert staff().get(VERIFY).status_code == 403


def test_an_auditor_reads_the_history_of_a_record(operator: Client, auditor: Client) -> None:
    provider = ProviderFactory.create()
    address = reverse("admin:routing_provider_history", args=[provider.pk])
    assert "Nothing in the audit trail is about prod-east" in text_of(auditor.get(address))
    for number in range(30):
        change(operator, page("routing_provider", provider), priority=str(number), reason=f"Try {number}.")
    first = text_of(auditor.get(address))
    assert "Try 29." in first
    assert "Try 4." not in first
    assert "Try 4." in text_of(auditor.get(address, {"p": 2}))


def test_an_unknown_word_is_shown_as_it_is() -> None:
    assert (action_words("danced"), kind_words("band"), channel_words("radio")) == ("danced", "band", "radio")
    assert action_words("broughtBack") == "Brought back"


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("name", None, "—"),
        ("name", "", "—"),
        ("is_active", False, "no"),
        ("max_input_rate", 2_500_000_000, "2.50"),
        ("context_length", 128_000, "128,000"),
        ("fallbacks", [], "none"),
        ("fallbacks", ["b", "a"], "b, a"),
        ("value", {"a": [None]}, '{"a": [null]}'),
    ],
)
def test_values_are_shown_as_people_read_them(field: str, value: Any, shown: str) -> None:
    assert spell_field(field, value) == shown


# --- Rotating a key -------------------------------------------------------------------------------------------------


def rotation(key: AccessKey) -> str:
    return reverse("admin:governance_accesskey_rotate", args=[key.pk])


@pytest.mark.parametrize(("grace", "said"), [("0", "is refused from now on"), ("24", "goes on until")])
def test_a_key_is_rotated_and_the_new_one_shown_once(operator: Client, grace: str, said: str) -> None:
    old, _ = AccessKeyFactory.create(allowed_configurations=["support-chat"])
    assert rotation(old) in text_of(operator.get(page("governance_accesskey", old)))
    shown = operator.post(rotation(old), sent_by(operator.get(rotation(old)), grace=grace, reason="Once a year."))
    assert "The key is sb-" in text_of(shown)
    assert said in text_of(shown)
    new = AccessKey.objects.exclude(pk=old.pk).get()
    assert new.allowed_configurations == ["support-chat"]
    old.refresh_from_db()
    assert (old.revoked_at is not None) is (grace == "0")
    assert last().reason == "Once a year."
    assert new.prefix in text_of(shown)


def test_a_revoked_key_is_not_rotated(operator: Client, auditor: Client) -> None:
    key, _ = AccessKeyFactory.create()
    assert auditor.get(rotation(key)).status_code == 403
    operator.post(rotation(key), {"grace": "0"})
    assert operator.get(rotation(key)).status_code == 403
    assert operator.post(rotation(key), {"grace": "0"}).status_code == 403
    assert AccessKey.objects.count() == 2
