"""Whatever the description allows, and what it does not, is asked of a real server: nothing is answered that the
description does not promise, and nothing fails.

Every operation is asked as an operator, and again as an application where a key may use it. Half of the addresses name
something that is there.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import pytest
import requests
import schemathesis
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import User
from hypothesis import HealthCheck, Phase, settings
from pytest_django import DjangoDbBlocker
from schemathesis import Case

from governance.api.schema import description
from governance.models import Batch
from telemetry.records import new_call_id
from tests.environment import TestDatabase, chosen_database
from tests.factories import (
    RECENTLY,
    AccessKeyFactory,
    ApplicationFactory,
    BudgetFactory,
    CallFactory,
    ConfigurationFactory,
    EvaluationResultFactory,
    FallbackLinkFactory,
    LanguageModelFactory,
    ProviderFactory,
    WebhookFactory,
)
from tests.governance.api.program import PASS_PHRASE
from tests.servers.web import running_web

EXAMPLES = 10
"""Cases of each operation and asker: what a minute allows. More of them found nothing more."""

OTHERS = {
    "positive_data_acceptance": "whether a value is right is more than a description can say",
    "negative_data_rejection": "the same, the other way round",
    "ignored_auth": "who may ask is judged by the test of roles",
    "unsupported_method": "every method of every address is judged by the test of roles",
    "missing_required_header": "knows no 428, which is what a change without a version gets",
}
"""Checks that others make, or nobody can."""

CHECKS: list[Any] = [check for check in schemathesis.checks.CHECKS.get_all() if check.__name__ not in OTHERS]

SPARED = ("log_out", "log_in")  # would end the session that asks; other tests have them

DESCRIBED = json.loads(description())
FOR_KEYS = {
    operation["operationId"]
    for path in DESCRIBED["paths"].values()
    for operation in path.values()
    if {"virtualKey": []} in operation["security"]
}

SCHEMA = schemathesis.openapi.from_dict(
    {
        **DESCRIBED,
        # Who asks is the test's business: keys and cookies that were made up would only be refused.
        "paths": {
            address: {method: {**operation, "security": []} for method, operation in path.items()}
            for address, path in DESCRIBED["paths"].items()
        },
    },
    config=schemathesis.Config.from_dict({"phases": {"coverage": {"enabled": False}}}),
)


@dataclass
class Server:
    """A server with one of everything, and those who ask it."""

    url: str
    there: dict[str, object]
    person: requests.Session
    application: requests.Session
    asked: dict[str, set[int]] = field(default_factory=dict)
    """Statuses that were seen, by operation."""

    def place(self, case: Case[Any]) -> None:
        """Let half of the addresses name what is there."""
        words = case.operation.path.removeprefix("/api/v1/").partition("/")[0]
        if case.path_parameters and len(repr((case.body, case.query, case.headers))) % 2 == 0:
            case.path_parameters = dict.fromkeys(case.path_parameters, self.there.get(words, "x"))

    def ask(self, case: Case[Any], session: requests.Session) -> None:
        """Ask, and hold the answer to the description."""
        self.place(case)
        if session is self.person:
            case.headers["X-CSRFToken"] = session.cookies["csrftoken"]
        response = case.call(base_url=self.url, session=session)
        name = case.operation.definition.raw["operationId"]
        self.asked.setdefault(name, set()).add(response.status_code)
        case.validate_response(
            response,
            checks=CHECKS,
        )


def furnish() -> tuple[str, dict[str, object]]:
    """One of everything; gives the secret of a key that nobody else has a hand on."""
    model = LanguageModelFactory.create(priced=True)
    configuration = ConfigurationFactory.create(listed=True, models=[model])
    FallbackLinkFactory.create(configuration=configuration)
    other = ApplicationFactory.create(identifier="web-shop")
    asking = AccessKeyFactory.create()
    batch = Batch(id=new_call_id(), application="helpdesk", size=0, submitted_at=RECENTLY)
    batch.save()
    there = {
        "providers": ProviderFactory.create().identifier,
        "models": model.identifier,
        "configurations": configuration.identifier,
        "applications": other.identifier,
        "budgets": BudgetFactory.create().identifier,
        "webhooks": WebhookFactory.create().identifier,
        "keys": AccessKeyFactory.create(application=other).record.pk,
        "evaluations": EvaluationResultFactory.create(model=model).pk,
        "settings": "routing.currency",
        "audit": 1,
        "calls": CallFactory.create().pk,
        "batches": batch.pk,
    }
    return asking.secret, there


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, django_db_blocker: DjangoDbBlocker) -> Iterator[Server]:
    with ExitStack() as stack:
        database_url = None
        if chosen_database() is TestDatabase.POSTGRES:
            database_url = stack.enter_context(request.getfixturevalue("postgres_server").database())
        stack.enter_context(django_db_blocker.unblock())
        web = stack.enter_context(running_web(database_url=database_url, start=False))
        with web.records():
            secret, there = furnish()
            person = User(username="olivia", is_staff=True, is_superuser=True)
            person.password = PBKDF2PasswordHasher().encode(PASS_PHRASE, "salt")
            person.save()
        web.start()
        sessions = [stack.enter_context(requests.Session()) for _ in range(2)]
        logged_in = sessions[0].post(
            f"{web.url}/api/v1/session", json={"username": "olivia", "password": PASS_PHRASE}, timeout=10
        )
        assert logged_in.status_code == HTTPStatus.OK
        sessions[1].headers["Authorization"] = f"Bearer {secret}"
        person_session, application_session = sessions
        yield Server(web.url, {name: str(value) for name, value in there.items()}, person_session, application_session)


@SCHEMA.exclude(operation_id=list(SPARED)).parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    database=None,
)
def test_as_somebody_who_may_do_everything(case: Case[Any], server: Server) -> None:
    server.ask(case, server.person)


@SCHEMA.include(operation_id=sorted(FOR_KEYS - set(SPARED))).parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    database=None,
)
def test_as_an_application(case: Case[Any], server: Server) -> None:
    server.ask(case, server.application)


def test_enough_was_answered_well(server: Server) -> None:
    """A session that had ended, or a name that was never there, would make the tests above say nothing."""
    if len(server.asked) < len(DESCRIBED["paths"]) / 2:
        pytest.skip("the tests above were not run")
    never = [name for name, statuses in server.asked.items() if not any(status < 300 for status in statuses)]
    assert not {401} & set().union(*server.asked.values())
    assert len(never) < len(server.asked) / 3, never
