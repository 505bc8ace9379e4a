"""Providers. A key goes in and never comes out; answers have its last characters."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.status import HTTP_204_NO_CONTENT

from governance.api.authentication import author_of
from governance.api.exceptions import ProblemType
from governance.api.records import Filled, Kind, KindView
from governance.api.serializers import Reason, ReasonedSerializer, ReasonQuery
from governance.api.views import Operation
from governance.audit.actions import RecordKind
from governance.changes.providers import save_provider
from governance.changes.rules import LONGEST_KEY
from routing.models import Provider
from routing.vault import Vault


class ProviderKeyField(serializers.CharField):
    """A key that is written only."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(write_only=True, max_length=LONGEST_KEY, **kwargs)


class ProviderSerializer(ReasonedSerializer):
    """A provider."""

    has_key = serializers.SerializerMethodField(help_text="Whether a key is stored.")

    class Meta:
        model = Provider
        fields: tuple[str, ...] = (
            "identifier", "name", "is_active", "priority", "adapter_type", "base_url", "api_version", "organization",
            "max_concurrent", "reach", "data_boundary", "region", "connect_timeout", "first_event_timeout",
            "between_events_timeout", "total_timeout", "has_key", "key_hint", "source", "created_at",
            "updated_at", "retired_at", "reason",
        )  # fmt: skip
        read_only_fields: tuple[str, ...] = ("key_hint", "source", "created_at", "updated_at", "retired_at")

    def get_has_key(self, provider: Provider) -> bool:
        return provider.sealed_key is not None


class NewProvider(ProviderSerializer):
    """A new provider, with its key if it is at hand."""

    key = ProviderKeyField(required=False, help_text="Stored encrypted and never shown again.")

    class Meta(ProviderSerializer.Meta):
        fields = (*ProviderSerializer.Meta.fields, "key")


class ProviderChange(ProviderSerializer):
    """A change of a provider. Its key has an address of its own."""

    class Meta(ProviderSerializer.Meta):
        read_only_fields: tuple[str, ...] = ("identifier", *ProviderSerializer.Meta.read_only_fields)


class ProviderKind(Kind):
    model = Provider
    record = RecordKind.PROVIDER
    word, words = "provider", "providers"
    serializer, creation, change = ProviderSerializer, NewProvider, ProviderChange

    def rows(self) -> "QuerySet[Any]":
        return Provider.objects.all()

    def store(self, filled: Filled) -> dict[str, Any]:
        columns = filled.fill(but=("key",))
        save_provider(
            filled.record,
            author=filled.author,
            reason=filled.reason,
            vault=_vault(),
            key=filled.values.get("key"),
            only=columns,
            expected=filled.expected,
        )
        return {}


class ProviderKey(Reason):
    """A key for a provider."""

    key = ProviderKeyField(help_text="Takes the place of the stored one for every call from half a second later on.")


class ProviderKeyView(KindView):
    """The key of a provider: to be written, never to be read."""

    @property
    def operations(self) -> Mapping[str, Operation]:
        return {
            "PUT": Operation(
                name="rotate_provider_key",
                summary="Store a provider's key, or another one",
                permit=self.of.permit("change"),
                body=ProviderKey,
                answer=ProviderSerializer,
                is_versioned=True,
                problems=(ProblemType.CONFLICT,),
            ),
            "DELETE": Operation(
                name="remove_provider_key",
                summary="Forget a provider's key",
                about="Calls are then sent without one.",
                permit=self.of.permit("change"),
                query=ReasonQuery,
                status=HTTP_204_NO_CONTENT,
                problems=(ProblemType.CONFLICT,),
            ),
        }

    def put(self, request: Request, name: object) -> HttpResponseBase:
        sent = self.read_body(request)
        provider = self.of.find(name)
        save_provider(
            provider,
            author=author_of(request),
            reason=sent["reason"],
            vault=_vault(),
            key=sent["key"],
            only=[],
        )
        return self.of.answer(provider)

    def delete(self, request: Request, name: object) -> HttpResponseBase:
        provider = self.of.find(name)
        save_provider(provider, author=author_of(request), reason=self.query["reason"], vault=_vault(), key="", only=[])
        return Response(status=HTTP_204_NO_CONTENT)


def _vault() -> Vault:
    return Vault(settings.SIGNALBOX_ENCRYPTION_KEYS)
