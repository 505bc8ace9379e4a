"""Models, configurations, evaluations, applications, keys, settings and the trail by the API."""

from datetime import UTC, datetime

import pytest
from django.utils import timezone

from governance.access.keys import digest_of
from governance.audit.trail import verify
from governance.models import AccessKey, AuditEvent, SettingValue
from routing.models import Configuration, EvaluationResult, LanguageModel, Price, Provider
from routing.snapshots import load_snapshot
from tests.factories import (
    LONG_AGO,
    AccessKeyFactory,
    ApplicationFactory,
    ConfigurationFactory,
    EvaluationResultFactory,
    LanguageModelFactory,
    PriceFactory,
    ProviderFactory,
    WebhookFactory,
)
from tests.governance.api.program import Program, complaints

# --- Models and prices ----------------------------------------------------------------------------------------------

MODEL = {"identifier": "wise", "provider": "prod-east", "model_id": "gpt-x-pro", "capabilities": ["chat", "vision"]}


def test_a_model_is_made_with_prices_that_are_exact(operator: Program) -> None:
    ProviderFactory.create()
    price = {"valid_from": "2026-01-01T00:00:00Z", "input_rate": "0.000000001", "output_rate": "10.50"}
    answer = operator.post("models", {**MODEL, "prices": [price]})
    assert answer.status_code == 201
    told = answer.json()
    assert (told["provider"], told["model_id"], told["capabilities"]) == ("prod-east", "gpt-x-pro", ["chat", "vision"])
    (stored,) = Price.objects.all()
    assert (stored.input_rate, stored.output_rate, stored.currency) == (1, 10_500_000_000, "USD")
    assert (told["prices"][0]["input_rate"], told["prices"][0]["output_rate"]) == ("0.000000001", "10.5")
    assert told["prices"][0]["cached_input_rate"] is None


@pytest.mark.parametrize(
    "rate", ["-1", "1,5", "1e3", "0.0000000001", 2.5, 3, "NaN", "", " 1", "99999999999", "9999999999"]
)
def test_a_rate_that_is_no_exact_decimal_text_is_refused_by_its_place(operator: Program, rate: object) -> None:
    ProviderFactory.create()
    good = {"valid_from": "2026-01-01T00:00:00Z", "input_rate": "1", "output_rate": "1"}
    answer = operator.post("models", {**MODEL, "prices": [good, {**good, "input_rate": rate}]})
    assert list(complaints(answer)) == ["prices[1].input_rate"]
    assert not LanguageModel.objects.exists()


def test_prices_are_sent_as_a_whole(operator: Program) -> None:
    model = LanguageModelFactory.create(identifier="wise")
    kept, gone = PriceFactory.create(model=model), PriceFactory.create(model=model, valid_from=timezone.now())
    prices = operator.get("models/wise").json()["prices"]
    new = {"valid_from": "2027-01-01T00:00:00Z", "input_rate": "3", "output_rate": "9", "cached_input_rate": "0.3"}
    answer = operator.patch("models/wise", {"prices": [{**prices[0], "output_rate": "11"}, new]})
    assert answer.status_code == 200
    rows = list(Price.objects.order_by("valid_from"))
    assert [row.pk for row in rows][:1] == [kept.pk]
    assert gone.pk not in {row.pk for row in rows}
    assert [(row.input_rate, row.output_rate) for row in rows] == [
        (2_500_000_000, 11_000_000_000), (3_000_000_000, 9_000_000_000),
    ]  # fmt: skip
    assert rows[0].valid_from == LONG_AGO


def test_each_class_of_service_is_priced_by_itself(operator: Program) -> None:
    LanguageModelFactory.create(identifier="wise")
    standard = {"valid_from": "2026-01-01T00:00:00Z", "input_rate": "2", "output_rate": "8"}
    flex = {**standard, "service_tier": "flex", "input_rate": "1", "output_rate": "4", "cache_write_hour_rate": "2"}
    answer = operator.patch("models/wise", {"prices": [standard, flex]})
    assert answer.status_code == 200
    told = operator.get("models/wise").json()["prices"]
    assert [(each["service_tier"], each["cache_write_hour_rate"]) for each in told] == [
        ("flex", "2"), ("standard", None),
    ]  # fmt: skip
    kept = {price.service_tier: price.pk for price in Price.objects.all()}
    assert operator.patch("models/wise", {"prices": [{**flex, "output_rate": "5"}]}).status_code == 200
    (left,) = Price.objects.all()
    assert (left.pk, left.output_rate) == (kept["flex"], 5_000_000_000)
    twice = operator.patch("models/wise", {"prices": [flex, flex]})
    assert list(complaints(twice)) == ["prices[0].valid_from", "prices[1].valid_from"]
    wrong = operator.patch("models/wise", {"prices": [{**flex, "service_tier": "gold"}]})
    assert list(complaints(wrong)) == ["prices[0].service_tier"]


def test_a_price_that_is_wrong_is_named_by_its_place(operator: Program) -> None:
    LanguageModelFactory.create(identifier="wise")
    good = {"valid_from": "2026-01-01T00:00:00Z", "input_rate": "1", "output_rate": "1"}
    other = {**good, "valid_from": "2026-02-01T00:00:00Z"}
    answer = operator.patch("models/wise", {"prices": [good, {**other, "long_input_rate": "2"}]})
    assert list(complaints(answer)) == ["prices[1].long_prompt_threshold"]
    answer = operator.patch("models/wise", {"prices": [good, {**other, "currency": "usd"}]})
    assert list(complaints(answer)) == ["prices[1].currency"]
    twice = operator.patch("models/wise", {"prices": [good, good]})
    assert list(complaints(twice)) == ["prices[0].valid_from", "prices[1].valid_from"]
    assert not Price.objects.exists()


def test_a_price_is_added_from_now_on(operator: Program) -> None:
    LanguageModelFactory.create(identifier="wise", priced=True)
    begun = timezone.now().replace(microsecond=0)
    answer = operator.post("models/wise/prices", {"input_rate": "2", "output_rate": "8", "reason": "New list."})
    assert answer.status_code == 201
    old, new = Price.objects.order_by("valid_from")
    assert (old.valid_from, new.input_rate) == (LONG_AGO, 2_000_000_000)
    assert begun <= new.valid_from <= timezone.now()
    assert AuditEvent.objects.get().reason == "New list."


# --- Configurations -------------------------------------------------------------------------------------------------


def test_a_configuration_with_a_list_and_a_chain_in_their_order(operator: Program) -> None:
    for name in ("fast", "wise", "huge"):
        LanguageModelFactory.create(identifier=name)
    for name in ("plan-b", "plan-c"):
        ConfigurationFactory.create(identifier=name)
    answer = operator.post(
        "configurations",
        {
            "identifier": "support-chat",
            "selection": "listed",
            "listed_models": ["wise", "fast"],
            "fallbacks": ["plan-c", "plan-b"],
            "cache_seconds": 900,
        },
    )
    assert answer.status_code == 201
    spec = load_snapshot().configurations["support-chat"]
    assert (spec.models, spec.fallbacks) == (("wise", "fast"), ("plan-c", "plan-b"))
    assert spec.cache_seconds == 900
    answer = operator.patch("configurations/support-chat", {"listed_models": ["huge", "wise"], "fallbacks": ["plan-b"]})
    assert (answer.json()["listed_models"], answer.json()["fallbacks"]) == (["huge", "wise"], ["plan-b"])
    spec = load_snapshot().configurations["support-chat"]
    assert (spec.models, spec.fallbacks) == (("huge", "wise"), ("plan-b",))
    assert operator.patch("configurations/support-chat", {"description": "x"}).json()["fallbacks"] == ["plan-b"]


def test_what_a_configuration_cannot_be(operator: Program) -> None:
    model = LanguageModelFactory.create()
    a, b = (ConfigurationFactory.create(identifier=name) for name in ("a-chat", "b-chat"))
    operator.patch("configurations/b-chat", {"fallbacks": ["a-chat"]})
    for sent, field in (
        ({"selection": "listed"}, "listed_models"),
        ({"selection": "fixed"}, "fixed_model"),
        ({"fallbacks": ["b-chat"]}, "fallbacks"),
        ({"fallbacks": ["a-chat"]}, "fallback"),
        ({"fallbacks": ["gone"]}, "fallbacks"),
        ({"listed_models": ["gpt-x-mini"]}, "listed_models"),
        ({"listed_models": [model.identifier] * 2}, "listed_models"),
        ({"listed_models": "fast"}, "listed_models"),
        ({"listed_models": ["a\x00b"]}, "listed_models"),
        ({"capabilities": ["dance"]}, "capabilities[0]"),
        ({"adapter_types": ["telepathy"]}, "adapter_types"),
        ({"policy_mode": "cheapest"}, "policy_mode"),
        ({"plan_limit": 21}, "plan_limit"),
        ({"cache_seconds": 0}, "cache_seconds"),
        ({"max_input_rate": "-1"}, "max_input_rate"),
    ):
        answer = operator.patch("configurations/a-chat", sent)
        assert (answer.status_code, list(complaints(answer))) == (400, [field])
    assert {each.pk for each in Configuration.objects.all()} == {a.pk, b.pk}


# --- Retirement -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "factory"),
    [
        ("providers", ProviderFactory),
        ("models", LanguageModelFactory),
        ("configurations", ConfigurationFactory),
        ("applications", ApplicationFactory),
        ("webhooks", WebhookFactory),
    ],
)
def test_a_record_is_retired_and_brought_back(operator: Program, words: str, factory: type[ProviderFactory]) -> None:
    path = f"{words}/{factory.create().identifier}"
    answer = operator.post(f"{path}/retire", {"reason": "Over."})
    assert (answer.status_code, answer.json()["is_active"]) == (200, False)
    assert answer.json()["retired_at"] is not None
    assert operator.get(words).json()["items"] == []
    assert len(operator.get(f"{words}?retired=true").json()["items"]) == 1
    refused = operator.patch(path, {"name": "x"})
    assert (refused.status_code, refused.json()["type"]) == (409, "conflict")
    assert "bring it back first" in refused.json()["detail"]
    assert operator.post(f"{path}/retire").status_code == 200
    answer = operator.post(f"{path}/restore")
    assert (answer.json()["retired_at"], answer.json()["is_active"]) == (None, False)
    assert list(AuditEvent.objects.order_by("number").values_list("action", "reason")) == [
        ("retired", "Over."), ("broughtBack", ""),
    ]  # fmt: skip


# --- Evaluations ----------------------------------------------------------------------------------------------------


def test_a_result_is_entered_corrected_and_taken_away(operator: Program) -> None:
    LanguageModelFactory.create()
    sent = {"model": "fast", "golden_set": "refunds", "mean_score": 0.75, "run_at": "2026-11-01T00:00:00Z"}
    answer = operator.post("evaluations", sent)
    path = answer.headers["Location"]
    assert answer.status_code == 201
    assert operator.patch(path, {"mean_score": 0.5}).json()["mean_score"] == 0.5
    assert list(complaints(operator.patch(path, {"golden_set": "other"}))) == ["golden_set"]
    assert list(complaints(operator.post("evaluations", {**sent, "mean_score": 1.5}))) == ["mean_score"]
    EvaluationResultFactory.create(model=LanguageModelFactory.create(identifier="wise"))
    assert [each["model"] for each in operator.get("evaluations?model=wise").json()["items"]] == ["wise"]
    assert operator.delete(path).status_code == 204
    assert EvaluationResult.objects.count() == 1


# --- Applications and keys ------------------------------------------------------------------------------------------


def test_a_key_is_shown_once(operator: Program) -> None:
    operator.post("applications", {"identifier": "web-shop", "name": "Shop"})
    ConfigurationFactory.create()
    answer = operator.post(
        "keys", {"application": "web-shop", "name": "Robot", "allowed_configurations": ["support-chat"]}
    )
    assert answer.status_code == 201
    secret = answer.json()["secret"]
    record = AccessKey.objects.get()
    assert record.secret_digest == digest_of(secret)
    assert answer.json()["allowed_configurations"] == ["support-chat"]
    path = answer.headers["Location"]
    assert path == f"/api/v1/keys/{record.pk}"
    for other in (operator.get(path), operator.get("keys"), operator.get("audit")):
        assert secret not in other.content.decode()
        assert "secret" not in other.json()
    assert operator.patch(path, {"allowed_models": []}).json()["allowed_models"] == []
    assert list(complaints(operator.patch(path, {"allowed_models": ["gpt-x-mini"]}))) == ["allowed_models"]
    assert list(complaints(operator.patch(path, {"application": "other"}))) == ["application"]


def test_a_key_is_rotated_and_revoked(operator: Program) -> None:
    record, secret = AccessKeyFactory.create()
    rotated = operator.post(f"keys/{record.pk}/rotate", {"grace_seconds": 3600, "reason": "Yearly."})
    assert rotated.status_code == 201
    successor = rotated.json()
    assert rotated.headers["Location"] == f"/api/v1/keys/{successor['id']}"
    assert successor["secret"] != secret
    record.refresh_from_db()
    assert record.expires_at is not None
    assert Program(secret).get("me").status_code == 200
    assert Program(successor["secret"]).get("me").json()["key_holder"]["key"] == successor["id"]
    revoked = operator.post(f"keys/{record.pk}/revoke")
    assert (revoked.status_code, revoked.json()["revoked_at"] is not None) == (200, True)
    assert Program(secret).get("me").status_code == 401
    for answer in (operator.post(f"keys/{record.pk}/rotate"), operator.patch(f"keys/{record.pk}", {"name": "x"})):
        assert (answer.status_code, answer.json()["type"]) == (409, "conflict")
    assert [each["id"] for each in operator.get("keys").json()["items"]] == [successor["id"]]
    assert len(operator.get("keys?revoked=true&application=helpdesk").json()["items"]) == 2


# --- Settings -------------------------------------------------------------------------------------------------------


def test_settings_say_where_their_value_comes_from(operator: Program, settings: object) -> None:
    settings.SIGNALBOX_SETTINGS = {"routing.callHistory": True}  # type: ignore[attr-defined]
    operator.put("settings/routing.policyMode", {"value": "balanced", "reason": "Measured."})
    SettingValue(key="routing.currency", value="dollars").save()
    found = {each["key"]: each for each in operator.get("settings").json()["items"]}
    assert [
        (found[key]["value"], found[key]["source"], found[key]["is_pinned"], found[key]["stored"])
        for key in ("routing.policyMode", "routing.callHistory", "routing.currency", "telemetry.enabled")
    ] == [
        ("balanced", "stored", False, {"value": "balanced"}),
        (True, "environment", True, None),
        ("USD", "unreadable", False, {"value": "dollars"}),
        (True, "default", False, None),
    ]


def test_a_pinned_setting_and_a_value_that_is_none(operator: Program, settings: object) -> None:
    settings.SIGNALBOX_SETTINGS = {"routing.callHistory": True}  # type: ignore[attr-defined]
    for answer in (
        operator.put("settings/routing.callHistory", {"value": False}),
        operator.delete("settings/routing.callHistory"),
    ):
        assert (answer.status_code, answer.json()["type"]) == (409, "conflict")
        assert "SIGNALBOX_SETTINGS" in answer.json()["detail"]
    wrong = operator.put("settings/routing.currency", {"value": "dollars"})
    assert complaints(wrong) == {"value": ["routing.currency: three capital letters, such as USD, are needed."]}
    assert operator.put("settings/no.such", {"value": 1}).status_code == 404
    assert operator.get("settings/no.such").status_code == 404


# --- The audit trail ------------------------------------------------------------------------------------------------


def test_an_auditor_reads_the_trail_and_verifies_it(operator: Program, auditor: Program) -> None:
    for number in range(3):
        operator.post("applications", {"identifier": f"shop-{number}"})
    operator.put("settings/routing.currency", {"value": "EUR"})
    first = auditor.get("audit?limit=3").json()
    assert [each["number"] for each in first["items"]] == [4, 3, 2]
    rest = auditor.get(first["next"]).json()
    assert ([each["number"] for each in rest["items"]], rest["next"]) == ([1], None)
    entry = auditor.get("audit/4").json()
    assert (entry["before"], entry["after"], entry["author"], entry["channel"]) == (
        None, {"value": "EUR"}, "operator-1", "api",
    )  # fmt: skip
    assert [each["record"] for each in auditor.get("audit?kind=setting").json()["items"]] == ["routing.currency"]
    assert len(auditor.get("audit?record=shop-1&author=operator-1").json()["items"]) == 1
    assert auditor.get("audit?kind=planet").status_code == 400
    assert auditor.get("audit/99").status_code == 404
    verdict = auditor.get("audit/verification").json()
    assert verdict == {"is_whole": True, "entries": 4, "digest": verify().digest, "flaws": []}
    AuditEvent.objects.filter(number=2)._raw_delete("default")
    assert auditor.get("audit/verification").json()["flaws"][0]["number"] == 2


# --- Who asks -------------------------------------------------------------------------------------------------------


def test_logging_in_and_out(people: dict[str, Program], nobody: Program) -> None:
    wrong = nobody.post("session", {"username": "operator-1", "password": "another one"})
    assert (wrong.status_code, wrong.json()["type"]) == (401, "not_authenticated")
    answer = nobody.post("session", {"username": "operator-1", "password": "a long pass phrase"})
    assert answer.status_code == 200
    assert answer.json()["person"]["roles"] == ["operator"]
    token = answer.json()["person"]["csrf_token"]
    made = nobody.post("applications", {"identifier": "web-shop"}, headers={"X-CSRFToken": token})
    assert made.status_code == 201
    assert nobody.delete("session", headers={"X-CSRFToken": token}).status_code == 204
    assert nobody.get("me").status_code == 401
    assert Provider.objects.count() == 0


def test_a_key_says_what_it_allows(key_holder: Program, key: AccessKey) -> None:
    assert key_holder.get("me").json() == {
        "key_holder": {
            "key": str(key.pk),
            "application": "helpdesk",
            "allowed_configurations": None,
            "allowed_models": None,
            "may_name_models": False,
            "expires_at": None,
        },
        "person": None,
    }


def test_moments_are_read_in_any_zone_and_told_in_utc(operator: Program) -> None:
    LanguageModelFactory.create()
    sent = {"model": "fast", "golden_set": "refunds", "mean_score": 0.75, "run_at": "2026-11-01T02:00:00+02:00"}
    assert operator.post("evaluations", sent).json()["run_at"] == "2026-11-01T00:00:00Z"
    assert EvaluationResult.objects.get().run_at == datetime(2026, 11, 1, tzinfo=UTC)
