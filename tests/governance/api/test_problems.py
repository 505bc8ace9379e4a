"""What goes wrong is told in one shape, names what to do, and repeats no secret."""

from typing import Any

import pytest
from django.db import OperationalError

from governance.api import records
from governance.api.exceptions import PROBLEMS, ProblemType
from governance.models import Application
from tests.factories import AccessKeyFactory, ApplicationFactory
from tests.governance.api.program import Program, complaints

MEMBERS = ["type", "title", "status", "detail", "errors", "request_id"]


def test_every_type_has_a_status_and_words() -> None:
    assert set(PROBLEMS) == set(ProblemType)
    assert all(400 <= kind.status < 600 and kind.title for kind in PROBLEMS.values())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "no valid JSON"),
        (b"[]", "must be a JSON object"),
        (b'{"identifier": "a", "identifier": "b"}', "gives the key 'identifier' twice"),
        (b'{"name": "\\ud800"}', "no valid JSON"),
        (b'{"a":' * 2000 + b"1" + b"}" * 2000, "depth limit exceeded"),
    ],
)
def test_a_body_that_cannot_be_read(operator: Program, body: bytes, words: str) -> None:
    answer = operator.post("applications", body)
    assert (answer.status_code, list(answer.json()), answer.json()["type"]) == (400, MEMBERS, "invalid_body")
    assert words in answer.json()["detail"]


def test_what_there_is_not_is_named(operator: Program, nobody: Program) -> None:
    for path in (
        "nothing",
        "providers/",
        "providers/a%0Ab",
        "a%0Ab%C2%85",
        "providers/Prod East",
        "providers/a%00b",
        "keys/7",
        "audit/-1",
        "../v2/x",
    ):
        for program in (operator, nobody):
            answer = program.get(path)
            assert (answer.status_code, answer.json()["type"]) == (404, "not_found")
            assert program.post(path, {}, token=False).json()["type"] == "not_found"
    answer = operator.get("providers/prod-south")
    assert (answer.status_code, answer.json()["detail"]) == (404, "There is no provider prod-south.")


def test_a_field_that_is_not_known_is_refused_with_those_that_are(operator: Program) -> None:
    answer = operator.post("applications", {"identifier": "web-shop", "titel": "Shop", "created_at": "2026-01-01"})
    assert answer.status_code == 400
    found = complaints(answer)
    assert found["titel"] == [
        "There is no such field. There are: description, identifier, is_active, may_run_tasks, name, reason, "
        "requests_per_day, requests_per_minute, tokens_per_day, tokens_per_minute."
    ]
    assert found["created_at"] == ["It can be read only."]
    assert not Application.objects.exists()


@pytest.mark.parametrize("query", ["cursr=x", "limit=0", "limit=201", "limit=many", "limit=5&limit=6", "cursor=x%00y"])
def test_a_query_is_held_to_what_the_address_knows(operator: Program, query: str) -> None:
    answer = operator.get(f"applications?{query}")
    assert (answer.status_code, answer.json()["type"]) == (400, "invalid_fields")
    assert list(complaints(answer)) == [query.partition("=")[0]]


def test_answers_and_bodies_are_json(operator: Program) -> None:
    answer = operator.get("applications", headers={"Accept": "text/html"})
    assert (answer.status_code, answer.json()["type"]) == (406, "not_acceptable")
    answer = operator.post("applications", b"identifier=x", content_type="application/x-www-form-urlencoded")
    assert (answer.status_code, answer.json()["type"]) == (415, "unsupported_media_type")
    answer = operator.get("applications", headers={"Accept": "*/*"})
    assert answer.headers["Content-Type"] == "application/json"


def test_a_body_is_bounded(operator: Program) -> None:
    answer = operator.post("applications", {"identifier": "web-shop", "description": "x" * 1024 * 1024})
    assert (answer.status_code, answer.json()["type"]) == (413, "body_too_large")
    assert "1048576" in answer.json()["detail"]


def test_a_key_that_is_none_says_so_and_is_not_repeated(nobody: Program) -> None:
    record, secret = AccessKeyFactory.create()
    ApplicationFactory.create()
    for shown in ("sb-unknown", secret[:-1], secret + "x"):
        nobody.secret = shown
        answer = nobody.get("me")
        assert (answer.status_code, answer.json()["type"]) == (401, "not_authenticated")
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="signalbox"'
        assert shown not in answer.content.decode()
    nobody.secret = ""
    assert nobody.get("me", headers={"x-api-key": secret}).json()["key_holder"]["key"] == str(record.pk)


def test_a_fault_of_our_own_is_logged_and_not_told(
    operator: Program, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("the secret plan")

    monkeypatch.setattr(records, "page_of", fail)
    answer = operator.get("applications")
    assert (answer.status_code, answer.json()["type"]) == (500, "internal_error")
    assert "secret plan" not in answer.content.decode()
    assert "secret plan" in caplog.text


def test_a_database_that_is_away_is_no_fault_of_ours(operator: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OperationalError("the connection is closed")

    monkeypatch.setattr(records, "page_of", fail)
    answer = operator.get("applications")
    assert (answer.status_code, answer.json()["type"], answer.headers["Retry-After"]) == (503, "not_ready", "1")


def test_security_headers_and_no_cache(operator: Program) -> None:
    answer = operator.get("applications")
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
