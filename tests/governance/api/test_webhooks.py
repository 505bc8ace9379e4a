"""Webhooks by the API: a secret that comes out once, and a test that says what became of it."""

from unittest.mock import patch

import pytest
from django.conf import settings

from governance.alerts.addresses import read_query
from governance.alerts.signing import read_secret
from governance.api import webhooks
from governance.models import AuditEvent, Revision, Webhook
from governance.telling import Trial
from routing.vault import Vault
from telemetry.records import new_call_id
from tests.factories import WebhookFactory
from tests.governance.alerts.rows import SECRET
from tests.governance.api.program import Program, complaints

NEW = {"identifier": "pager", "name": "Who is on duty", "url": "https://alerts.example.com/signalbox"}


def secret_of(identifier: str = "pager") -> str:
    return read_secret(Webhook.objects.get(identifier=identifier), vault=Vault(settings.SIGNALBOX_ENCRYPTION_KEYS))


def test_a_webhook_is_made_with_a_secret_that_is_told_once(operator: Program) -> None:
    answer = operator.post("webhooks", {**NEW, "reason": "Nights."})
    assert (answer.status_code, answer.headers["Location"]) == (201, "/api/v1/webhooks/pager")
    made = answer.json()
    secret = made.pop("secret")
    assert secret == secret_of()
    assert (made["url"], made["has_secret"], made["secret_hint"]) == (NEW["url"], True, secret[-4:])
    assert operator.get("webhooks/pager").json() == made
    assert operator.get("webhooks").json()["items"] == [made]
    event = AuditEvent.objects.get()
    assert (event.action, event.kind, event.author, event.channel, event.reason) == (
        "created", "webhook", "operator-1", "api", "Nights.",
    )  # fmt: skip
    assert secret not in repr([*Revision.objects.values(), *AuditEvent.objects.values()])


def test_a_secret_that_was_sent_is_not_told(operator: Program) -> None:
    answer = operator.post("webhooks", {**NEW, "secret": SECRET})
    assert (answer.json()["secret"], secret_of()) == (None, SECRET)
    assert SECRET not in answer.content.decode()


def test_a_secret_is_replaced_at_an_address_of_its_own(operator: Program) -> None:
    operator.post("webhooks", NEW)
    assert operator.get("webhooks/pager/secret").status_code == 405
    assert list(complaints(operator.patch("webhooks/pager", {"secret": SECRET}))) == ["secret"]
    sent = operator.put("webhooks/pager/secret", {"secret": SECRET, "reason": "Ours."})
    assert (sent.status_code, sent.json()["secret"], secret_of()) == (200, None, SECRET)
    made = operator.put("webhooks/pager/secret", {}).json()["secret"]
    assert made == secret_of() != SECRET
    entries = list(AuditEvent.objects.order_by("number").values_list("action", "reason"))
    assert entries == [("created", ""), ("rotated", "Ours."), ("rotated", "")]
    operator.post("webhooks/pager/retire")
    assert operator.put("webhooks/pager/secret", {}).json()["type"] == "conflict"
    assert secret_of() == made


def test_what_is_changed_leaves_the_secret_alone(operator: Program) -> None:
    operator.post("webhooks", {**NEW, "secret": SECRET})
    answer = operator.patch("webhooks/pager", {"url": "https://alerts.example.com/nights", "is_active": False})
    assert (answer.json()["url"], answer.json()["is_active"]) == ("https://alerts.example.com/nights", False)
    assert secret_of() == SECRET


def test_what_follows_a_question_mark_is_stored_and_not_told(operator: Program) -> None:
    vault = Vault(settings.SIGNALBOX_ENCRYPTION_KEYS)
    made = operator.post("webhooks", {**NEW, "url": NEW["url"] + "?code=hush"})
    assert (made.json()["url"], made.json()["has_query"]) == (NEW["url"], True)
    for url, left in ((NEW["url"], "code=hush"), (NEW["url"] + "?code=other", "code=other"), (NEW["url"] + "?", "")):
        answer = operator.patch("webhooks/pager", {"url": url})
        assert (answer.json()["url"], answer.json()["has_query"]) == (NEW["url"], bool(left))
        assert read_query(Webhook.objects.get(), vault=vault) == left
        assert "code" not in answer.content.decode()
    refused = operator.patch("webhooks/pager", {"url": NEW["url"] + "?code=hush hush"})
    assert (refused.status_code, list(complaints(refused))) == (400, ["url"])
    assert "hush" not in refused.content.decode()


def test_the_rules_of_the_admin_hold_here_too(operator: Program) -> None:
    for field, sent in {
        "url": {**NEW, "url": "https://me:secret@alerts.example.com/"},
        "identifier": {**NEW, "identifier": "The Pager"},
        "secret": {**NEW, "secret": "whsec_short"},
        "is_active": {**NEW, "is_active": "perhaps"},
    }.items():
        answer = operator.post("webhooks", sent)
        assert (answer.status_code, list(complaints(answer))) == (400, [field])
        assert "short" not in answer.content.decode()
    assert not Webhook.objects.exists()


@pytest.mark.parametrize("problem", ["", "pager answered with status 500"])
def test_a_test_says_what_became_of_it(operator: Program, problem: str) -> None:
    WebhookFactory.create()
    delivery = new_call_id()
    with patch.object(webhooks, "try_webhook", return_value=Trial(delivery, problem)) as tried:
        answer = operator.post("webhooks/pager/try")
    assert answer.json() == {"delivery": str(delivery), "is_delivered": not problem, "problem": problem}
    assert tried.call_args.args[0].identifier == "pager"
    assert operator.post("webhooks/nobody/try").status_code == 404
