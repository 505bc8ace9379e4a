"""Providers by the API: what goes in, what comes out, and a key that never does."""

from django.conf import settings

from governance.models import AuditEvent, Revision
from routing.credentials import read_key
from routing.models import Provider
from routing.vault import Vault
from tests.factories import ProviderFactory
from tests.governance.api.program import Program, complaints

KEY = "sk-live-5d41402abc4b2a76b971"
NEW = {"identifier": "prod-west", "adapter_type": "openai", "name": "Production, west", "priority": 70}


def vault() -> Vault:
    return Vault(settings.SIGNALBOX_ENCRYPTION_KEYS)


def test_a_provider_is_made_with_its_key_which_is_not_told(operator: Program) -> None:
    answer = operator.post("providers", {**NEW, "key": KEY, "reason": "Second region."})
    assert answer.status_code == 201
    assert answer.headers["Location"] == "/api/v1/providers/prod-west"
    made = answer.json()
    assert (made["identifier"], made["priority"], made["has_key"], made["key_hint"]) == ("prod-west", 70, True, "b971")
    assert made["connect_timeout"] == "5.00"
    assert read_key(Provider.objects.get(), vault=vault()) == KEY
    event = AuditEvent.objects.get()
    assert (event.action, event.author, event.channel, event.reason) == (
        "created", "operator-1", "api", "Second region.",
    )  # fmt: skip
    assert event.correlation == answer.headers["X-Request-ID"]
    assert KEY not in answer.content.decode() + repr([*Revision.objects.values()])
    assert operator.get("providers/prod-west").json() == made


def test_a_key_is_rotated_and_removed_at_an_address_of_its_own(operator: Program) -> None:
    ProviderFactory.create()
    assert operator.get("providers/prod-east/key").status_code == 405
    answer = operator.put("providers/prod-east/key", {"key": KEY, "reason": "First."})
    assert (answer.status_code, answer.json()["key_hint"]) == (200, "b971")
    operator.put("providers/prod-east/key", {"key": KEY.replace("5d", "6e")})
    assert read_key(Provider.objects.get(), vault=vault()) == KEY.replace("5d", "6e")
    assert operator.delete("providers/prod-east/key?reason=Closed").status_code == 204
    assert operator.get("providers/prod-east").json()["has_key"] is False
    entries = list(AuditEvent.objects.order_by("number").values_list("action", "reason"))
    assert entries == [("changed", "First."), ("rotated", ""), ("changed", "Closed")]


def test_a_change_takes_no_key_and_says_where_it_goes(operator: Program) -> None:
    ProviderFactory.create()
    answer = operator.patch("providers/prod-east", {"key": KEY})
    assert answer.status_code == 400
    assert list(complaints(answer)) == ["key"]


def test_only_what_was_sent_is_changed(operator: Program) -> None:
    provider = ProviderFactory.create()
    answer = operator.patch("providers/prod-east", {"region": "eu-north", "is_active": False})
    assert answer.status_code == 200
    assert (answer.json()["region"], answer.json()["is_active"], answer.json()["name"]) == (
        "eu-north", False, "Production, east",
    )  # fmt: skip
    revision = Revision.objects.get()
    assert revision.changes == {"region": ("eu-central", "eu-north"), "is_active": (True, False)}
    provider.refresh_from_db()
    assert provider.region == "eu-north"


def test_the_rules_of_the_admin_hold_here_too(operator: Program) -> None:
    answers = {
        "adapter_type": operator.post("providers", {**NEW, "adapter_type": "telepathy"}),
        "base_url": operator.post("providers", {**NEW, "base_url": "https://me:secret@llm.example.com/v1"}),
        "identifier": operator.post("providers", {**NEW, "identifier": "Prod West"}),
        "priority": operator.post("providers", {**NEW, "priority": 101}),
        "key": operator.post("providers", {**NEW, "key": "two words"}),
        "connect_timeout": operator.post("providers", {**NEW, "connect_timeout": "0"}),
    }
    for field, answer in answers.items():
        assert (answer.status_code, answer.json()["type"]) == (400, "invalid_fields")
        assert list(complaints(answer)) == [field]
        assert "secret" not in answer.content.decode()
    homeless = operator.post("providers", {**NEW, "adapter_type": "custom"})
    assert complaints(homeless) == {
        "base_url": ["Any OpenAI-compatible host has no address of its own: enter the base URL."]
    }
    assert not Provider.objects.exists()


def test_an_identifier_is_given_once(operator: Program) -> None:
    ProviderFactory.create(identifier="prod-west")
    assert list(complaints(operator.post("providers", NEW))) == ["identifier"]
    assert list(complaints(operator.patch("providers/prod-west", {"identifier": "other"}))) == ["identifier"]
