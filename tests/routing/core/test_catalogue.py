import pytest

from routing.core.catalogue import Catalogue
from routing.core.money import Money
from routing.core.requirements import Assumed, Requirements
from tests.routing.core.samples import at, model, price


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


@pytest.mark.parametrize(
    ("images", "files", "context", "prompt"),
    [
        (0, 0, 128_000, 1_000),
        (2, 0, 128_000, 1_000 + 2 * 300),
        (1, 3, 128_000, 1_000 + 300 + 3 * 7_000),
        (0, 30, 128_000, 128_000),  # a longer prompt would be refused
        (0, 30, None, 1_000 + 30 * 7_000),
        (5, 0, 500, 1_000),  # one that is too long is what it is
    ],
)
def test_the_most_a_request_costs_has_its_images_and_files(
    images: int, files: int, context: int | None, prompt: int
) -> None:
    assumed = Assumed(max_output=50, image_tokens=300, file_tokens=7_000)
    charged = price("2.50", "10.00")
    asked = Requirements(prompt_tokens=1_000, images=images, files=files, choices=2)
    bounds = model("fast", context_length=context).upper_bounds(charged, asked, assumed=assumed)
    assert bounds == (Money(prompt * 2_500 + 100 * 10_000, "USD"),) * 2
