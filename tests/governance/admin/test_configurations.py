"""Configurations in the admin: three ways to a model, and a fallback chain without circles."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from routing.models import CatalogueVersion, Configuration, FallbackLink
from routing.snapshots import load_snapshot
from tests.factories import ConfigurationFactory, FallbackLinkFactory, LanguageModelFactory
from tests.governance.admin.pages import complaints, sent_by, text_of

LIST = reverse("admin:routing_configuration_changelist")
ADD = reverse("admin:routing_configuration_add")
CHAT = {"name": "Chat for support", "identifier": "support-chat"}


def page_of(configuration: Configuration) -> str:
    return reverse("admin:routing_configuration_change", args=[configuration.pk])


def add(operator: Client, **values: Any) -> Any:
    return operator.post(ADD, sent_by(operator.get(ADD), **{**CHAT, **values}))


def change(operator: Client, configuration: Configuration, **values: Any) -> Any:
    return operator.post(page_of(configuration), sent_by(operator.get(page_of(configuration)), **values))


def test_criteria_are_proper_fields(operator: Client) -> None:
    answer = add(
        operator,
        selection="criteria",
        policy_mode="economy",
        capabilities=["vision", "chat"],
        adapter_types=["openai", "ollama"],
        min_context_length="32000",
        max_input_rate="2.50",
        prefer_lowest_cost="on",
        plan_limit="2",
        repairs_output="on",
        cache_seconds="900",
    )
    assert answer.status_code == 302
    spec = load_snapshot().configurations["support-chat"]
    assert spec.criteria.capabilities == ("chat", "vision")
    assert set(spec.criteria.adapter_types) == {"openai", "ollama"}
    assert spec.criteria.min_context_length == 32_000
    assert spec.criteria.max_cost_input == 2_500_000_000
    assert spec.criteria.prefer_lowest_cost is True
    assert spec.policy_mode == "economy"
    assert (spec.plan_limit, spec.repairs_output, spec.cache_seconds) == (2, True, 900)
    assert "(Chat, Reads images), economy" in text_of(operator.get(LIST))


def test_criteria_come_back_as_they_were_stored(operator: Client) -> None:
    configuration = ConfigurationFactory.create(
        capabilities=["vision"], adapter_types=["openai", "of_old_times"], max_input_rate=75_000_000
    )
    before = CatalogueVersion.read()
    sent = sent_by(operator.get(page_of(configuration)))
    assert sent["capabilities"] == ["vision"]
    assert sorted(sent["adapter_types"]) == ["of_old_times", "openai"]
    assert sent["max_input_rate"] == ["0.075"]
    assert change(operator, configuration).status_code == 302
    assert CatalogueVersion.read() == before
    change(operator, configuration, plan_limit="7")
    assert set(Configuration.objects.get().adapter_types) == {"openai", "of_old_times"}


def test_a_fixed_selection_names_its_model(operator: Client) -> None:
    model = LanguageModelFactory.create()
    assert list(complaints(add(operator, selection="fixed"))) == ["fixed_model"]
    assert add(operator, selection="fixed", fixed_model=model.pk).status_code == 302
    assert load_snapshot().configurations["support-chat"].models == ("fast",)


def test_a_listed_selection_lists_models_in_their_places(operator: Client) -> None:
    one, two = LanguageModelFactory.create(identifier="m-one"), LanguageModelFactory.create(identifier="m-two")
    answer = add(
        operator,
        selection="listed",
        listed_order="cheapest",
        **{
            "listed_models-0-model": one.pk,
            "listed_models-0-position": "2",
            "listed_models-1-model": two.pk,
            "listed_models-1-position": "1",
        },
    )
    assert answer.status_code == 302
    assert load_snapshot().configurations["support-chat"].models == ("m-two", "m-one")
    assert "m-two, m-one (cheapest published price first)" in text_of(operator.get(LIST))


def test_a_listed_selection_without_models_is_refused(operator: Client) -> None:
    found = complaints(add(operator, selection="listed"))
    assert list(found) == ["listed_models"]
    assert "list at least one" in found["listed_models"][0]
    configuration = ConfigurationFactory.create(identifier="other-chat", listed=True)
    everything_removed = {f"listed_models-{place}-DELETE": "on" for place in range(2)}
    assert list(complaints(change(operator, configuration, **everything_removed))) == ["listed_models"]
    assert configuration.listed_models.count() == 2


def test_a_model_is_listed_once(operator: Client) -> None:
    model = LanguageModelFactory.create()
    answer = add(operator, selection="listed", **{"listed_models-0-model": model.pk, "listed_models-1-model": model.pk})
    assert complaints(answer)
    assert not Configuration.objects.exists()


def test_listed_models_are_taken_out_one_by_one(operator: Client) -> None:
    configuration = ConfigurationFactory.create(listed=True)
    change(operator, configuration, **{"listed_models-0-DELETE": "on"})
    assert len(load_snapshot().configurations["support-chat"].models) == 1


# --- Fallbacks ----------------------------------------------------------------------------------------------------


def test_a_chain_is_followed_in_its_order(operator: Client) -> None:
    first, second = (ConfigurationFactory.create(identifier=name) for name in ("plan-b", "plan-c"))
    answer = add(
        operator,
        **{
            "fallback_links-0-fallback": second.pk,
            "fallback_links-0-position": "1",
            "fallback_links-1-fallback": first.pk,
            "fallback_links-1-position": "0",
        },
    )
    assert answer.status_code == 302
    assert load_snapshot().configurations["support-chat"].fallbacks == ("plan-b", "plan-c")
    assert "plan-b, plan-c" in text_of(operator.get(LIST))


def test_a_configuration_does_not_fall_back_to_itself(operator: Client) -> None:
    configuration = ConfigurationFactory.create()
    found = complaints(change(operator, configuration, **{"fallback_links-0-fallback": configuration.pk}))
    assert found == {"fallback_links-0-fallback": ["A configuration cannot fall back to itself."]}
    assert not FallbackLink.objects.exists()


def test_a_circle_is_refused_and_shown(operator: Client) -> None:
    a, b, c = (ConfigurationFactory.create(identifier=name) for name in ("a-chat", "b-chat", "c-chat"))
    FallbackLinkFactory.create(configuration=b, fallback=c)
    FallbackLinkFactory.create(configuration=c, fallback=a)
    found = complaints(change(operator, a, **{"fallback_links-0-fallback": b.pk}))
    assert found == {"fallback_links-0-fallback": ["This would close a circle: a-chat → b-chat → c-chat → a-chat."]}
    assert FallbackLink.objects.count() == 2


def test_a_circle_of_two_is_a_circle(operator: Client) -> None:
    a, b = (ConfigurationFactory.create(identifier=name) for name in ("a-chat", "b-chat"))
    FallbackLinkFactory.create(configuration=b, fallback=a)
    found = complaints(change(operator, a, **{"fallback_links-0-fallback": b.pk}))
    assert found == {"fallback_links-0-fallback": ["This would close a circle: a-chat → b-chat → a-chat."]}


def test_two_ways_to_one_fallback_are_no_circle(operator: Client) -> None:
    a, b, c = (ConfigurationFactory.create(identifier=name) for name in ("a-chat", "b-chat", "c-chat"))
    FallbackLinkFactory.create(configuration=b, fallback=c)
    answer = change(operator, a, **{"fallback_links-0-fallback": b.pk, "fallback_links-1-fallback": c.pk})
    assert answer.status_code == 302


def test_turning_a_chain_round_in_one_go_is_no_circle(operator: Client) -> None:
    a, b = (ConfigurationFactory.create(identifier=name) for name in ("a-chat", "b-chat"))
    FallbackLinkFactory.create(configuration=a, fallback=b)
    assert change(operator, a, **{"fallback_links-0-DELETE": "on"}).status_code == 302
    assert change(operator, b, **{"fallback_links-0-fallback": a.pk}).status_code == 302


def test_what_is_retired_is_offered_nowhere_new(operator: Client) -> None:
    retired = {"retired_at": timezone.now()}
    ConfigurationFactory.create(identifier="gone-chat", **retired)
    LanguageModelFactory.create(identifier="gone-model", **retired)
    page = text_of(operator.get(ADD))
    assert "gone-chat</option>" not in page
    assert "gone-model</option>" not in page


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"max_input_rate": "2,50"}, "max_input_rate"),
        ({"min_context_length": "-5"}, "min_context_length"),
        ({"plan_limit": "0"}, "plan_limit"),
        ({"plan_limit": "21"}, "plan_limit"),
        ({"policy_mode": "cheapest"}, "policy_mode"),
        ({"selection": "override"}, "selection"),
        ({"capabilities": ["dance"]}, "capabilities"),
        ({"adapter_types": ["telepathy"]}, "adapter_types"),
        ({"listed_order": "random"}, "listed_order"),
        ({"identifier": "support.chat"}, "identifier"),
    ],
)
def test_bad_input_names_its_field_and_loses_nothing(operator: Client, values: dict[str, Any], field: str) -> None:
    answer = add(operator, **{"description": "Took long to write.", **values})
    assert list(complaints(answer)) == [field]
    assert sent_by(answer)["description"] == ["Took long to write."]
    assert not Configuration.objects.exists()


# --- What it would resolve to ---------------------------------------------------------------------------------------


def test_the_page_says_what_it_would_resolve_to_and_why(operator: Client) -> None:
    configuration = ConfigurationFactory.create(listed=True)
    fallback = ConfigurationFactory.create(
        identifier="plan-b", selection="fixed", fixed_model=LanguageModelFactory.create(identifier="wise")
    )
    FallbackLinkFactory.create(configuration=configuration, fallback=fallback)
    page = text_of(operator.get(page_of(configuration)))
    places = [page.index(f"<li><strong>{route}</strong>") for route in ("prod-east/fast", "prod-east-2/fast-2")]
    assert places == sorted(places)
    assert "by falling back to plan-b" in page
    assert "Why in this order" in page
    question = f"configuration={configuration.identifier}&amp;operation=chat"
    assert f'href="/admin/governance-tab/why-this-model/?{question}"' in page
    assert f'href="/admin/governance-tab/why-this-model/scenario.json?{question}"' in page


def test_the_page_says_why_it_would_resolve_to_nothing(operator: Client) -> None:
    nothing = ConfigurationFactory.create(capabilities=["vision"], is_active=False)
    LanguageModelFactory.create(capabilities=["chat"])
    page = text_of(operator.get(page_of(nothing)))
    assert "No route could serve it" in page
    assert "It is switched off" in page
    assert "Refused: " in page
    retired = ConfigurationFactory.create(identifier="gone", retired_at=timezone.now(), is_active=False)
    assert "It is retired" in text_of(operator.get(page_of(retired)))


def test_a_looker_on_sees_what_it_would_resolve_to(auditor: Client) -> None:
    configuration = ConfigurationFactory.create(listed=True)
    page = text_of(auditor.get(page_of(configuration)))
    assert "<li><strong>prod-east/fast</strong>" in page
    assert "/try/" not in page


# --- What a selection reads -----------------------------------------------------------------------------------------


def test_an_auditor_sees_what_the_selection_reads(auditor: Client) -> None:
    titles = {
        "fixed": "The one model",
        "listed": "Which of the listed models goes first",
        "criteria": "What every candidate must meet, and what ranks them",
    }
    for selection, kind in (("fixed", "fixed"), ("listed", "listed"), ("criteria", "criteria")):
        configuration = ConfigurationFactory.create(**{kind: True})
        page = text_of(auditor.get(reverse("admin:routing_configuration_change", args=[configuration.pk])))
        assert [each for each, title in titles.items() if title in page] == [selection]
        assert ("listed_models-heading" in page) is (selection == "listed")
