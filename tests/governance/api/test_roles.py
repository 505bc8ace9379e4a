"""Who may do what: every address with every method, for every role, for an application's key and for nobody."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import URLPattern, URLResolver, get_resolver

from governance.api.schema import description
from governance.api.views import ApiView
from governance.models import AuditEvent, Batch
from telemetry.records import new_call_id
from tests.factories import (
    AccessKeyFactory,
    ApplicationFactory,
    BudgetFactory,
    CallFactory,
    ConfigurationFactory,
    EvaluationResultFactory,
    LanguageModelFactory,
    ProviderFactory,
    WebhookFactory,
)
from tests.governance.api.program import Program

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
ASKERS = ("superuser", "operator", "auditor", "stranger", "key", "nobody")

READ, WRITE = "read", "write"
"""Operators and auditors; operators alone."""
KEY, OWN, MINE, BOTH, ANY = "key", "own", "mine", "both", "any"
"""Virtual keys alone; keys for what is their application's, and whoever reads everything; the same, and whoever changes
everything; all who are known; all."""

# What each address knows, and for whom.
ADDRESSES: dict[str, dict[str, str]] = {
    "me": {"GET": BOTH},
    "session": {"POST": ANY, "DELETE": BOTH},
    "settings": {"GET": READ},
    "settings/<setting:name>": {"GET": READ, "PUT": WRITE, "DELETE": WRITE},
    "providers/<identifier:name>/key": {"PUT": WRITE, "DELETE": WRITE},
    "models/<identifier:name>/prices": {"POST": WRITE},
    "price-lists": {"GET": READ, "POST": WRITE},
    "price-lists/decline": {"POST": WRITE},
    "evaluations": {"GET": READ, "POST": WRITE},
    "evaluations/<number:name>": {"GET": READ, "PATCH": WRITE, "DELETE": WRITE},
    "keys": {"GET": READ, "POST": WRITE},
    "keys/<uuid:name>": {"GET": READ, "PATCH": WRITE},
    "keys/<uuid:name>/rotate": {"POST": WRITE},
    "keys/<uuid:name>/revoke": {"POST": WRITE},
    "calls": {"GET": OWN, "POST": KEY},
    "calls/<uuid:call>/cancel": {"POST": MINE},
    "submissions": {"GET": OWN},
    "batches": {"GET": OWN, "POST": KEY},
    "batches/<uuid:batch>": {"GET": OWN},
    "batches/<uuid:batch>/cancel": {"POST": MINE},
    "calls/<uuid:call>": {"GET": OWN},
    "calls/<uuid:call>/explanation": {"GET": OWN},
    "calls/<uuid:call>/outcomes": {"POST": KEY},
    "alerts": {"GET": READ},
    "webhooks/<identifier:name>/secret": {"PUT": WRITE},
    "webhooks/<identifier:name>/try": {"POST": WRITE},
    "routes": {"GET": READ},
    "routes/<identifier:name>/pause": {"POST": WRITE},
    "routes/<identifier:name>/clear": {"POST": WRITE},
    "preflight": {"POST": WRITE},
    "usage": {"GET": OWN},
    "usage.csv": {"GET": OWN},
    "explain": {"POST": OWN},
    "audit": {"GET": READ},
    "audit/<number:name>": {"GET": READ},
    "audit/verification": {"GET": READ},
}
for words in ("providers", "models", "configurations", "applications", "budgets", "webhooks"):
    ADDRESSES[words] = {"GET": READ, "POST": WRITE}
    ADDRESSES[f"{words}/<identifier:name>"] = {"GET": READ, "PATCH": WRITE}
    ADDRESSES[f"{words}/<identifier:name>/retire"] = {"POST": WRITE}
    ADDRESSES[f"{words}/<identifier:name>/restore"] = {"POST": WRITE}

MAY: dict[str, frozenset[str]] = {
    READ: frozenset({"superuser", "operator", "auditor"}),
    WRITE: frozenset({"superuser", "operator"}),
    KEY: frozenset({"key"}),
    MINE: frozenset({"superuser", "operator", "key"}),
    OWN: frozenset({"superuser", "operator", "auditor", "key"}),
    BOTH: frozenset({"superuser", "operator", "auditor", "stranger", "key"}),
    ANY: frozenset(ASKERS),
}


def batch() -> object:
    """A batch of the application whose key asks."""
    row = Batch(id=new_call_id(), application="helpdesk", key="", source="", size=0, submitted_at=datetime.now(UTC))
    row.save()
    return row.pk


ROWS: dict[str, Callable[[], object]] = {
    "providers": lambda: ProviderFactory.create().identifier,
    "models": lambda: LanguageModelFactory.create().identifier,
    "routes": lambda: LanguageModelFactory.create().identifier,
    "configurations": lambda: ConfigurationFactory.create().identifier,
    "applications": lambda: ApplicationFactory.create().identifier,
    "budgets": lambda: BudgetFactory.create().identifier,
    "webhooks": lambda: WebhookFactory.create().identifier,
    "evaluations": lambda: EvaluationResultFactory.create().pk,
    "keys": lambda: AccessKeyFactory.create().record.pk,
    "settings": lambda: "routing.currency",
    "calls": lambda: CallFactory.create().pk,
    "batches": batch,
    "audit": lambda: 1,
}


def addresses(patterns: Any, *, before: str = "") -> Iterator[tuple[str, Any]]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from addresses(pattern.url_patterns, before=before + str(pattern.pattern))
        elif isinstance(pattern, URLPattern):
            yield before + str(pattern.pattern), pattern.callback


VIEWS: dict[str, Any] = {
    address.removeprefix("v1/"): callback
    for address, callback in addresses(get_resolver("governance.api.urls").url_patterns)
    if issubclass(getattr(callback, "cls", object), ApiView)
}


def filled(address: str) -> str:
    """The address of something that is there."""
    words, _, _ = address.partition("/")
    head, _, tail = address.partition("<")
    return address if not tail else f"{head}{ROWS[words]()}{tail.partition('>')[2]}"


@pytest.fixture
def askers(people: dict[str, Program], key_holder: Program, nobody: Program) -> dict[str, Program]:
    return {**people, "key": key_holder, "nobody": nobody}


def test_every_address_is_judged_here_with_the_methods_it_knows() -> None:
    known = {address: set(view.cls(**view.initkwargs).operations) for address, view in VIEWS.items()}
    assert known == {address: set(methods) for address, methods in ADDRESSES.items()}


def test_every_operation_is_described_and_no_two_have_one_name() -> None:
    described = json.loads(description())["paths"]
    names = [operation["operationId"] for path in described.values() for operation in path.values()]
    assert len(names) == len(set(names)) == sum(len(methods) for methods in ADDRESSES.values())


@pytest.mark.parametrize("asker", ASKERS)
@pytest.mark.parametrize("address", sorted(ADDRESSES))
def test_an_address(address: str, asker: str, askers: dict[str, Program]) -> None:
    path = filled(address)
    for method in METHODS:
        # What is sent is wrong on purpose: who may not do it hears that, who may hears what is wrong with it.
        document = {"no_such_field": 1} if method in ("POST", "PUT", "PATCH") else None
        answer = askers[asker].send(method, f"{path}?no_such_word=1" if document is None else path, document)
        whom = ADDRESSES[address].get(method)
        if whom is None:
            assert answer.status_code == 405, method
        elif asker in MAY[whom]:
            assert answer.status_code == 400, answer.content
        else:
            assert answer.status_code == (401 if asker == "nobody" else 403), method
        problem = answer.json()
        assert problem["status"] == answer.status_code
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert problem["request_id"] == answer.headers["X-Request-ID"]
    assert not AuditEvent.objects.exists()


def test_a_member_of_the_staff_is_meant(people: dict[str, Program]) -> None:
    User.objects.update(is_staff=False)
    for program in people.values():
        answer = program.get("providers")
        assert (answer.status_code, answer.json()["type"]) == (403, "forbidden")


def test_a_change_from_another_site_is_refused(operator: Program) -> None:
    answer = operator.post("applications", {"identifier": "web-shop"}, token=False)
    assert (answer.status_code, answer.json()["type"]) == (403, "forbidden")
    assert "X-CSRFToken" in answer.json()["detail"]
    assert operator.post("applications", {"identifier": "web-shop"}).status_code == 201
