"""Webhooks, which are told of alerts. A secret comes out once: in the answer to the request that had it made."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from governance.alerts.addresses import LONGEST_ADDRESS
from governance.api.authentication import author_of
from governance.api.exceptions import ProblemType
from governance.api.records import Filled, Kind, KindView
from governance.api.serializers import Reason, ReasonedSerializer, StrictSerializer
from governance.api.views import Operation
from governance.audit.actions import RecordKind
from governance.changes.webhooks import read_address, save_webhook
from governance.models import Webhook
from governance.telling import try_webhook
from routing.vault import Vault


class SecretField(serializers.CharField):
    """A secret that is written only."""

    def __init__(self) -> None:
        told = "What to sign with: whsec_ and 24 to 64 bytes in base64. If none is sent one is made."
        super().__init__(write_only=True, required=False, max_length=200, help_text=told)


class WebhookSerializer(ReasonedSerializer):
    """A webhook."""

    url = serializers.CharField(
        max_length=LONGEST_ADDRESS,
        help_text="Where alerts are posted to. What follows a question mark is stored encrypted and never told: it "
        "stays while the URL does, and is forgotten with a bare question mark at the end, or with another URL.",
    )
    has_query = serializers.BooleanField(read_only=True, help_text="Whether a question mark and more follows the URL.")
    has_secret = serializers.SerializerMethodField(help_text="Whether alerts can be signed: without, none are sent.")

    class Meta:
        model = Webhook
        fields: tuple[str, ...] = (
            "identifier", "name", "is_active", "url", "has_query", "has_secret", "secret_hint", "source",
            "created_at", "updated_at", "retired_at", "reason",
        )  # fmt: skip
        read_only_fields: tuple[str, ...] = ("secret_hint", "source", "created_at", "updated_at", "retired_at")

    def get_has_secret(self, webhook: Webhook) -> bool:
        return webhook.sealed_secret is not None


class NewWebhook(WebhookSerializer):
    """A new webhook."""

    secret = SecretField()

    class Meta(WebhookSerializer.Meta):
        fields = (*WebhookSerializer.Meta.fields, "secret")


class SignedWebhook(WebhookSerializer):
    """A webhook with another secret than before."""

    secret = serializers.CharField(
        read_only=True,
        allow_null=True,
        help_text="The secret that was made. It is stored encrypted and not shown again. Null if one was sent.",
    )

    class Meta(WebhookSerializer.Meta):
        fields = (*WebhookSerializer.Meta.fields, "secret")


class WebhookChange(WebhookSerializer):
    """A change of a webhook. Its secret has an address of its own."""

    class Meta(WebhookSerializer.Meta):
        read_only_fields: tuple[str, ...] = ("identifier", *WebhookSerializer.Meta.read_only_fields)


class WebhookKind(Kind):
    model = Webhook
    record = RecordKind.WEBHOOK
    word, words = "webhook", "webhooks"
    serializer, creation, change, made = WebhookSerializer, NewWebhook, WebhookChange, SignedWebhook

    def rows(self) -> "QuerySet[Any]":
        return Webhook.objects.all()

    def store(self, filled: Filled) -> dict[str, Any]:
        query = None
        if "url" in filled.values:
            filled.values["url"], query = read_address(filled.values["url"])
        columns = filled.fill(but=("secret",))
        made = save_webhook(
            filled.record,
            author=filled.author,
            reason=filled.reason,
            vault=_vault(),
            secret=filled.values.get("secret", ""),
            query=query,
            only=columns,
            expected=filled.expected,
        )
        return {"secret": made or None} if filled.is_new else {}


class Signing(Reason):
    """What a webhook is to sign with from now on."""

    secret = SecretField()


class WebhookSecretView(KindView):
    """The secret of a webhook: to be replaced, never to be read."""

    @property
    def operations(self) -> Mapping[str, Operation]:
        return {
            "PUT": Operation(
                name="replace_webhook_secret",
                summary="Sign with another secret",
                about="It takes the place of the stored one at once; alerts that are tried again are signed by it too.",
                permit=self.of.permit("change"),
                body=Signing,
                answer=SignedWebhook,
                is_versioned=True,
                problems=(ProblemType.CONFLICT,),
            )
        }

    def put(self, request: Request, name: object) -> HttpResponseBase:
        sent = self.read_body(request)
        webhook = self.of.find(name)
        made = save_webhook(
            webhook,
            author=author_of(request),
            reason=sent["reason"],
            vault=_vault(),
            secret=sent.get("secret", ""),
            renew=True,
            only=[],
        )
        return self.of.answer(webhook, more={"secret": made or None})


class TrialSerializer(StrictSerializer):
    """What became of a test."""

    delivery = serializers.UUIDField(help_text="What the receiver knows it by: its webhook-id.")
    is_delivered = serializers.BooleanField()
    problem = serializers.CharField(help_text="Why it did not arrive; empty if it did.")


class TryWebhookView(KindView):
    """Sends a test."""

    @property
    def operations(self) -> Mapping[str, Operation]:
        return {
            "POST": Operation(
                name="try_webhook",
                summary="Send a test to a webhook",
                about="Waits for what becomes of it. One that does not arrive is tried again, as every alert is.",
                permit=self.of.permit("change"),
                body=Reason,
                answer=TrialSerializer,
            )
        }

    def post(self, request: Request, name: object) -> HttpResponseBase:
        self.read_body(request)
        trial = try_webhook(self.of.find(name))
        said = {"delivery": trial.delivery, "is_delivered": not trial.problem, "problem": trial.problem}
        return Response(TrialSerializer(said).data)


def _vault() -> Vault:
    return Vault(settings.SIGNALBOX_ENCRYPTION_KEYS)
