"""The pages of alerts: webhooks whose secret is seen once, what was crossed and who was told, what is sent again."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from governance.alerts import outbox
from governance.alerts.addresses import read_query
from governance.alerts.outbox import Outcome
from governance.alerts.signing import read_secret
from governance.gateway import home
from governance.models import AlertDelivery, AuditEvent, DeliveryState, Revision, Webhook
from routing.vault import Vault
from tests.factories import BudgetFactory
from tests.governance.admin.pages import text_of, words_of
from tests.governance.alerts.rows import SECRET, crossing, delivery, webhook

pytestmark = pytest.mark.django_db

LIST = "admin:budgets_crossing_changelist"
URL = "https://alerts.example.com/signalbox"


def pager() -> Any:
    return Webhook.objects.get()


def secret_of(row: Webhook, settings: Settings) -> str:
    return read_secret(row, vault=Vault(settings.SIGNALBOX_ENCRYPTION_KEYS))


def failed() -> AlertDelivery:
    row = delivery()
    claim = outbox.claim(row.pk, now=datetime.now(UTC))
    assert claim is not None
    gone = Outcome(status=410, error="pager answered with status 410", is_final=True)
    outbox.mark(claim, gone, now=datetime.now(UTC))
    return row


def test_a_secret_is_made_and_shown_once(operator: Client, settings: Settings) -> None:
    form = {"identifier": "pager", "name": "The pager", "url": URL, "is_active": "on", "secret": "", "reason": ""}
    page = operator.post(reverse("admin:governance_webhook_add"), form, follow=True)
    row = pager()
    secret = secret_of(row, settings)
    assert secret in text_of(page)
    address = reverse("admin:governance_webhook_change", args=[row.pk])
    for seen in (operator.get(address), operator.get(reverse("admin:governance_webhook_changelist"))):
        assert secret not in text_of(seen)
        assert f"ends in {secret[-4:]}" in words_of(seen)
    renewed = operator.post(address, {**form, "renew_secret": "on"}, follow=True)
    row.refresh_from_db()
    assert secret_of(row, settings) != secret
    assert secret_of(row, settings) in text_of(renewed)
    assert list(AuditEvent.objects.order_by("number").values_list("action", flat=True)) == ["created", "rotated"]


def test_a_secret_that_is_entered_is_not_shown_and_a_wrong_one_refused(operator: Client, settings: Settings) -> None:
    form = {"identifier": "pager", "name": "", "url": URL, "is_active": "on", "secret": "whsec_short", "reason": ""}
    refused = operator.post(reverse("admin:governance_webhook_add"), form)
    assert "24 to 64 bytes in base64" in words_of(refused)
    assert "whsec_short" not in text_of(refused)
    page = operator.post(reverse("admin:governance_webhook_add"), {**form, "secret": SECRET}, follow=True)
    assert SECRET not in text_of(page)
    assert secret_of(pager(), settings) == SECRET


@pytest.mark.parametrize(
    "url", ["ftp://alerts.example.com/", "https://who:what@alerts.example.com/", f"{URL}#key", f"{URL}?key=1#2"]
)
def test_an_address_is_one_to_post_to(operator: Client, url: str) -> None:
    form = {"identifier": "pager", "name": "", "url": url, "is_active": "on", "secret": "", "reason": ""}
    assert operator.post(reverse("admin:governance_webhook_add"), form).status_code == 200
    assert not Webhook.objects.exists()


def test_a_query_goes_in_and_is_not_seen_again(operator: Client, settings: Settings) -> None:
    form = {"identifier": "pager", "name": "", "url": f"{URL}?code=hush", "is_active": "on", "secret": "", "reason": ""}
    made = operator.post(reverse("admin:governance_webhook_add"), form, follow=True)
    row = pager()
    address = reverse("admin:governance_webhook_change", args=[row.pk])
    pages = [made, operator.get(address), operator.get(reverse("admin:governance_webhook_try", args=[row.pk]))]
    history = operator.get(reverse("admin:governance_webhook_history", args=[row.pk]))
    for page in (*pages, history, operator.get(reverse("admin:governance_webhook_changelist"))):
        assert "hush" not in text_of(page)
    assert f"{URL}?…" in text_of(operator.get(reverse("admin:governance_webhook_changelist")))
    vault = Vault(settings.SIGNALBOX_ENCRYPTION_KEYS)
    for entered, left in (
        (URL, "code=hush"), (f"{URL}?code=other", "code=other"), (f"{URL}?", ""),
        (f"{URL}?code=hush", "code=hush"), (f"{URL}/two", ""), (URL, ""),
    ):  # fmt: skip
        operator.post(address, {**form, "url": entered})
        row.refresh_from_db()
        assert (row.url, read_query(row, vault=vault)) == (entered.partition("?")[0], left)
    actions = list(AuditEvent.objects.order_by("number").values_list("action", flat=True))
    assert actions == ["created", "rotated", "changed", "changed", "changed", "changed"]
    assert "hush" not in repr([*Revision.objects.values(), *AuditEvent.objects.values()])


def test_what_was_crossed_says_who_was_told_and_leads_on(operator: Client) -> None:
    budget = BudgetFactory.create()
    crossing("gone-by")
    row = webhook()
    told = crossing(budget.identifier)
    crossing(budget.identifier, threshold=None)
    outbox.fill(now=datetime.now(UTC))
    page = operator.get(reverse(LIST))
    words = words_of(page)
    for part in ("past 80 %", "refuses calls", "at 85 % of 10 USD"):
        assert part in words
    assert "Waiting" in words
    assert "nobody" in words
    sent = AlertDelivery.objects.get(webhook=row, crossing=told.pk)
    for name, pk in (
        ("governance_budget_change", budget.pk),
        ("budgets_account_change", told.account_id),
        ("governance_alertdelivery_change", sent.pk),
    ):
        assert f'href="{reverse(f"admin:{name}", args=[pk])}"' in text_of(page)


def test_what_is_not_kept_any_more_is_not_said_to_have_been_told_nobody(operator: Client) -> None:
    crossing("gone-by", at=datetime.now(UTC) - timedelta(days=91))
    assert "not kept any more" in words_of(operator.get(reverse(LIST)))
    assert not operator.get(reverse(LIST), {"delivery": "none"}).context["cl"].result_list


def test_alerts_are_found_by_budget_and_by_delivery(operator: Client) -> None:
    BudgetFactory.create(identifier="desk-month")
    BudgetFactory.create(identifier="shop-month")
    untold = crossing("desk-month")
    row = failed()

    def found(**asked: str) -> list[int]:
        return [each.pk for each in operator.get(reverse(LIST), asked).context["cl"].result_list]

    assert found() == [row.crossing, untold.pk]
    assert found(budget="desk-month") == [untold.pk]
    assert found(budget="shop-month") == []
    assert found(delivery="none") == [untold.pk]
    assert found(delivery="failed") == [row.crossing]
    assert found(delivery="waiting") == []


def test_what_has_failed_is_sent_again_by_whoever_may_and_the_trail_has_it(operator: Client, auditor: Client) -> None:
    row = failed()
    url = reverse("admin:governance_alertdelivery_changelist")
    asked = {"action": "send_again", "_selected_action": [str(row.pk)]}
    auditor.post(url, asked)
    row.refresh_from_db()
    assert row.state == DeliveryState.FAILED
    assert "1 are sent again" in words_of(operator.post(url, asked, follow=True))
    row.refresh_from_db()
    assert (row.state, row.attempts) == (DeliveryState.WAITING, 0)
    event = AuditEvent.objects.first()
    assert event is not None
    assert (event.action, event.kind, event.record) == ("sentAgain", "alert", "budget-of-pager/pager")
    assert "None of them has failed" in words_of(operator.post(url, asked, follow=True))


@pytest.mark.usefixtures("tables")
def test_a_test_says_what_became_of_it(settings: Settings) -> None:
    row = webhook(url="https://127.0.0.1:9/hooks")
    User.objects.create_superuser("olivia")
    browser = Client()
    browser.force_login(User.objects.get())
    url = reverse("admin:governance_webhook_try", args=[row.pk])
    assert "It did not arrive" not in words_of(browser.get(url))
    assert not AlertDelivery.objects.exists(), "looking sends nothing"
    page = browser.post(url)
    home.close()
    sent = AlertDelivery.objects.get()
    assert "It did not arrive" in words_of(page)
    assert (sent.crossing, sent.attempts) == (None, 1)
    assert reverse("admin:governance_alertdelivery_change", args=[sent.pk]) in text_of(page)
