"""Nobody undoes what they have not seen."""

from collections.abc import Callable
from typing import Any

import pytest

from governance.models import AuditEvent
from tests.factories import (
    AccessKeyFactory,
    ApplicationFactory,
    ConfigurationFactory,
    EvaluationResultFactory,
    LanguageModelFactory,
    ProviderFactory,
    WebhookFactory,
)
from tests.governance.api.program import Program

CHANGES: dict[str, tuple[Callable[[], object], Any, Any]] = {
    "providers": (lambda: ProviderFactory.create().identifier, {"region": "a"}, {"region": "b"}),
    "models": (lambda: LanguageModelFactory.create(priced=True).identifier, {"prices": []}, {"sorting": 7}),
    "configurations": (
        lambda: ConfigurationFactory.create(listed=True).identifier, {"listed_models": ["fast-2"]}, {"plan_limit": 2},
    ),
    "applications": (lambda: ApplicationFactory.create().identifier, {"name": "a"}, {"name": "b"}),
    "webhooks": (lambda: WebhookFactory.create(sealed_secret=b"s").identifier, {"name": "a"}, {"is_active": False}),
    "keys": (lambda: AccessKeyFactory.create().record.pk, {"name": "a"}, {"name": "b"}),
    "evaluations": (lambda: EvaluationResultFactory.create().pk, {"mean_score": 0.5}, {"mean_score": 0.6}),
}  # fmt: skip


@pytest.mark.parametrize("words", sorted(CHANGES))
def test_the_second_of_two_changes_is_refused_until_it_has_seen_the_first(words: str, operator: Program) -> None:
    make, first, second = CHANGES[words]
    path = f"{words}/{make()}"
    seen = operator.get(path).headers["ETag"]
    done = operator.patch(path, first, version=seen)
    assert done.status_code == 200
    assert done.headers["ETag"] != seen

    refused = operator.patch(path, second, version=seen)
    assert (refused.status_code, refused.json()["type"]) == (412, "changed_meanwhile")
    assert "Read it again" in refused.json()["detail"]
    assert AuditEvent.objects.count() == 1

    assert operator.get(path).headers["ETag"] == done.headers["ETag"]
    assert operator.patch(path, second, version=done.headers["ETag"]).status_code == 200
    assert operator.patch(path, first, version="*").status_code == 200


@pytest.mark.parametrize("words", sorted(CHANGES))
def test_a_change_that_names_no_version_is_not_made(words: str, operator: Program) -> None:
    make, first, _ = CHANGES[words]
    path = f"{words}/{make()}"
    answer = operator.patch(path, first, version=None)
    assert (answer.status_code, answer.json()["type"]) == (428, "version_needed")
    assert "If-Match" in answer.json()["detail"]
    for nonsense in ("abc", '"a", "b"', '""x'):
        answer = operator.patch(path, first, version=nonsense)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "If-Match")
    assert not AuditEvent.objects.exists()


def test_a_setting_has_a_version_too(operator: Program) -> None:
    path = "settings/routing.currency"
    seen = operator.get(path).headers["ETag"]
    first = operator.put(path, {"value": "EUR"}, version=seen)
    assert (first.status_code, first.json()["value"]) == (200, "EUR")
    assert operator.put(path, {"value": "CHF"}, version=seen).status_code == 412
    assert operator.delete(path, version=seen).status_code == 412
    reset = operator.delete(path, version=first.headers["ETag"])
    assert (reset.json()["value"], reset.json()["source"], reset.headers["ETag"]) == ("USD", "default", seen)


def test_what_changes_nothing_is_no_change(operator: Program) -> None:
    ApplicationFactory.create(name="The help desk")
    seen = operator.get("applications/helpdesk").headers["ETag"]
    assert operator.patch("applications/helpdesk", {"name": "The help desk"}, version=seen).headers["ETag"] == seen
    assert operator.patch("applications/helpdesk", {}, version=seen).headers["ETag"] == seen
    assert not AuditEvent.objects.exists()
