from routing.core.catalogue import Catalogue
from tests.routing.core.samples import at, model


def test_candidates_stand_by_sorting_then_name_then_identifier() -> None:
    models = [
        model("d", sorting=1, name="A"),
        model("c", name="B"),
        model("b", name="A"),
        model("a", name="B"),
    ]
    expected = ["b", "a", "c", "d"]
    assert [each.identifier for each in Catalogue.of(models).models] == expected
    assert [each.identifier for each in Catalogue.of(reversed(models)).models] == expected


def test_a_catalogue_finds_by_identifier() -> None:
    catalogue = Catalogue.of([model("fast"), model("slow")], version=7)
    assert catalogue.by_identifier["fast"].model_id == "gpt-x-fast"
    assert catalogue.version == 7


def test_a_route_is_named_by_identifiers() -> None:
    assert model("fast").route == "prod-east/fast"


def test_a_caller_names_a_model_by_our_identifier_or_by_the_provider_s_id() -> None:
    ours, theirs = model("fast"), model("slow")
    elsewhere = model("other", provider=at("anthropic"))
    catalogue = Catalogue.of([ours, theirs, elsewhere])
    assert catalogue.named(provider="prod-east", model="fast") is ours
    assert catalogue.named(provider="prod-east", model="gpt-x-slow") is theirs
    assert catalogue.named(provider="prod-anthropic", model="gpt-x-other") is elsewhere
    assert catalogue.named(provider="openai", model="fast") is None  # an adapter type is no provider
    assert catalogue.named(provider="prod-east", model="other") is None


def test_our_identifier_goes_before_another_model_s_id() -> None:
    named, shadowed = model("gpt-x-slow"), model("slow")
    assert Catalogue.of([shadowed, named]).named(provider="prod-east", model="gpt-x-slow") is named
