"""Settings: every declared one with the value in force and where it comes from; stored values are changed here."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from governance.api.authentication import author_of
from governance.api.exceptions import ApiProblem, ProblemType
from governance.api.permissions import people
from governance.api.serializers import Reason, ReasonQuery, StrictSerializer
from governance.api.versions import etag_of, expected_version
from governance.api.views import ApiView, Operation
from governance.audit.actions import RecordKind
from governance.changes.settings import clear_setting, store_setting
from governance.settings_store.registry import REGISTRY, Kind
from governance.settings_store.sources import SettingInForce, Source, settings_in_force

_VIEW = people("governance.view_settingvalue")
_CHANGE = people("governance.change_settingvalue")


class SettingSerializer(StrictSerializer):
    """A setting as it is in force."""

    key = serializers.CharField(source="setting.key", help_text="Its name.")
    value = serializers.JSONField(help_text="The value in force.")
    source = serializers.ChoiceField(  # type: ignore[assignment]  # the class has it as a word of its own
        [each.value for each in Source], help_text="Where the value in force comes from."
    )
    is_pinned = serializers.BooleanField(help_text="Whether the environment pins it, so that nothing can be stored.")
    stored = serializers.SerializerMethodField(help_text="What is stored, if anything is.")
    stored_at = serializers.DateTimeField(allow_null=True)
    default = serializers.JSONField(source="setting.default")
    accepts = serializers.ChoiceField([each.value for each in Kind], source="setting.kind")
    choices = serializers.SerializerMethodField(help_text="The values to choose from; empty where any goes.")
    help = serializers.CharField(source="setting.help")

    def get_stored(self, setting: SettingInForce) -> dict[str, Any] | None:
        return None if setting.stored is None else {"value": setting.stored.value}

    def get_choices(self, setting: SettingInForce) -> list[Any]:
        return [value for value, _ in setting.setting.choices]


class SettingWrite(Reason):
    """A value to store."""

    value = serializers.JSONField(help_text="A value that the setting accepts.")


class SettingsView(ApiView):
    """All settings."""

    operations: Mapping[str, Operation] = {
        "GET": Operation(
            name="list_settings", summary="List the settings", permit=_VIEW, answer=SettingSerializer, is_page=True
        )
    }

    def get(self, request: Request) -> HttpResponseBase:
        return Response({"items": SettingSerializer(settings_in_force(), many=True).data, "next": None})


class SettingView(ApiView):
    """One setting."""

    operations: Mapping[str, Operation] = {
        "GET": Operation(
            name="read_setting", summary="Read a setting", permit=_VIEW, answer=SettingSerializer, is_versioned=True
        ),
        "PUT": Operation(
            name="store_setting",
            summary="Store a value",
            about="In force in every process within a second. What the environment pins cannot be stored.",
            permit=_CHANGE,
            body=SettingWrite,
            answer=SettingSerializer,
            is_versioned=True,
            names_version=True,
            problems=(ProblemType.CONFLICT,),
        ),
        "DELETE": Operation(
            name="reset_setting",
            summary="Forget the stored value",
            about="The default is in force again.",
            permit=_CHANGE,
            query=ReasonQuery,
            answer=SettingSerializer,
            is_versioned=True,
            names_version=True,
            problems=(ProblemType.CONFLICT,),
        ),
    }

    def get(self, request: Request, name: str) -> HttpResponseBase:
        return _answer(name)

    def put(self, request: Request, name: str) -> HttpResponseBase:
        _known(name)
        expected = expected_version(request)
        sent = self.read_body(request)
        store_setting(name, sent["value"], author=author_of(request), reason=sent["reason"], expected=expected)
        return _answer(name)

    def delete(self, request: Request, name: str) -> HttpResponseBase:
        _known(name)
        expected = expected_version(request)
        clear_setting(name, author=author_of(request), reason=self.query["reason"], expected=expected)
        return _answer(name)


def _known(name: str) -> None:
    if name not in REGISTRY:
        raise ApiProblem(
            ProblemType.NOT_FOUND, f"There is no setting {name}. There are: {', '.join(sorted(REGISTRY))}."
        )


def _answer(name: str) -> Response:
    _known(name)
    etag = etag_of(RecordKind.SETTING, name)
    found = next(each for each in settings_in_force() if each.setting.key == name)
    return Response(SettingSerializer(found).data, headers={"ETag": etag})
