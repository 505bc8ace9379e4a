"""Lists: the same number of queries however many records there are, and pages that neither repeat nor skip."""

from datetime import timedelta
from typing import Any

import pytest
from django.test.utils import CaptureQueriesContext

from governance.models import AccessKey
from routing.models import EvaluationResult
from tests.factories import (
    RECENTLY,
    AccessKeyFactory,
    ApplicationFactory,
    BudgetFactory,
    ConfigurationFactory,
    EvaluationResultFactory,
    FallbackLinkFactory,
    LanguageModelFactory,
    PriceFactory,
    ProviderFactory,
)
from tests.governance.alerts.rows import delivery
from tests.governance.api.program import Program, complaints


def furnish(number: int) -> None:
    """One of everything, with parts."""
    model = LanguageModelFactory.create(priced=True)
    PriceFactory.create(model=model, valid_from=RECENTLY)
    EvaluationResultFactory.create(model=model)
    configuration = ConfigurationFactory.create(listed=True, models=[model])
    FallbackLinkFactory.create(configuration=configuration)
    AccessKeyFactory.create(name=f"Robot {number}")
    BudgetFactory.create()
    delivery(f"pager-{number}")


# Who is logged in and what they may do takes four queries: session, user, permissions, groups' permissions.
LISTS = {
    "providers": 1,
    "models": 2,
    "configurations": 3,
    "evaluations": 1,
    "applications": 1,
    "keys": 1,
    "budgets": 3,
    "alerts": 2,
    "webhooks": 1,
    "settings": 1,
    "audit": 1,
}


@pytest.mark.parametrize("words", sorted(LISTS))
def test_a_list_costs_the_same_however_long_it_is(
    words: str, operator: Program, django_assert_num_queries: Any
) -> None:
    furnish(0)
    operator.post("applications", {"identifier": "shop-0"})
    with django_assert_num_queries(4 + LISTS[words]) as few:
        assert operator.get(words).status_code == 200
    for number in range(1, 6):
        furnish(number)
        operator.post("applications", {"identifier": f"shop-{number}"})
    with django_assert_num_queries(4 + LISTS[words]) as many:
        assert len(operator.get(words).json()["items"]) > 1
    assert isinstance(few, CaptureQueriesContext)
    assert isinstance(many, CaptureQueriesContext)


def walk(program: Program, path: str) -> list[Any]:
    found: list[Any] = []
    address: str | None = path
    while address is not None:
        page = program.get(address).json()
        found += page["items"]
        address = page["next"]
    return found


def test_pages_go_through_a_list_once(operator: Program) -> None:
    for number in range(23):
        ApplicationFactory.create(identifier=f"shop-{number:02}", retired_at=RECENTLY if number % 5 == 0 else None)
    walked = [each["identifier"] for each in walk(operator, "applications?limit=4&retired=true")]
    assert walked == [f"shop-{number:02}" for number in range(23)]
    assert len(walk(operator, "applications?limit=4")) == 18


def test_what_comes_and_goes_meanwhile_moves_nothing(operator: Program) -> None:
    for number in range(0, 12, 2):
        ApplicationFactory.create(identifier=f"shop-{number:02}")
    first = operator.get("applications?limit=3").json()
    ApplicationFactory.create(identifier="shop-01")
    ApplicationFactory.create(identifier="shop-05")
    second = operator.get(first["next"]).json()
    assert [each["identifier"] for each in first["items"]] == ["shop-00", "shop-02", "shop-04"]
    assert [each["identifier"] for each in second["items"]] == ["shop-05", "shop-06", "shop-08"]


def test_rows_of_one_moment_are_told_apart(operator: Program) -> None:
    application = ApplicationFactory.create()
    for number in range(7):
        AccessKeyFactory.create(application=application, name=f"Robot {number}")
    moments = [RECENTLY, RECENTLY + timedelta(microseconds=1)]
    for number, key in enumerate(AccessKey.objects.all()):
        key.created_at = moments[number % 2]
        key.save()
    walked = [each["id"] for each in walk(operator, "keys?limit=2")]
    expected = AccessKey.objects.order_by("-created_at", "id").values_list("pk", flat=True)
    assert walked == [str(pk) for pk in expected]


def test_numbers_are_compared_as_numbers(operator: Program) -> None:
    model = LanguageModelFactory.create()
    for _ in range(12):
        EvaluationResultFactory.create(model=model)
    walked = [each["id"] for each in walk(operator, "evaluations?limit=5")]
    assert walked == list(EvaluationResult.objects.order_by("-pk").values_list("pk", flat=True))


def test_a_cursor_belongs_to_its_list_and_is_not_made_by_hand(operator: Program) -> None:
    for number in range(3):
        ApplicationFactory.create(identifier=f"shop-{number}")
        ProviderFactory.create()
    cursor = operator.get("applications?limit=1").json()["next"].partition("cursor=")[2]
    for path in (f"providers?cursor={cursor}", f"applications?cursor={cursor}x", "applications?cursor=shop-1"):
        answer = operator.get(path)
        assert (answer.status_code, list(complaints(answer))) == (400, ["cursor"])
