"""The description of the API and the page that shows it: for anybody, from our own files, and true."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from drf_spectacular.drainage import GENERATOR_STATS

from governance.api.exceptions import ProblemType
from governance.api.schema import description
from tests.governance.api.program import Program

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def described() -> Any:
    return json.loads(description())


def operations(described: Any) -> list[Any]:
    return [each for path in described["paths"].values() for each in path.values()]


def test_anybody_may_read_it(nobody: Program, key_holder: Program) -> None:
    for program in (nobody, key_holder):
        answer = program.get("openapi.json")
        assert (answer.status_code, answer.json()["openapi"]) == (200, "3.1.0")


def test_every_operation_says_what_it_does_who_may_and_what_can_go_wrong(described: Any) -> None:
    for each in operations(described):
        assert each["summary"]
        assert "security" in each
        statuses = {int(status) for status in each["responses"]}
        assert {400, 401, 406, 503} <= statuses
        assert 500 not in statuses  # a fault of ours is promised nowhere
        if "requestBody" in each:
            assert {413, 415} <= statuses


def test_every_change_of_a_record_names_its_version(described: Any) -> None:
    for path, methods in described["paths"].items():
        for method, each in methods.items():
            named = any(parameter["name"] == "If-Match" for parameter in each.get("parameters", ()))
            assert named is (method == "patch" or (method in ("put", "delete") and "settings" in path)) or (
                method == "delete" and "evaluations" in path
            )


def test_problems_are_described_once(described: Any) -> None:
    problem = described["components"]["schemas"]["Problem"]["properties"]
    assert problem["type"]["enum"] == [each.value for each in ProblemType]


def test_it_is_made_without_a_warning() -> None:
    GENERATOR_STATS.reset()
    description.__wrapped__()
    assert not GENERATOR_STATS


def test_no_secret_can_come_out(described: Any) -> None:
    """Whatever an answer may hold: a provider's key nowhere, a secret in the answers that issue a key or make one."""
    schemas = described["components"]["schemas"]
    told = [schema.get("properties", {}).get("secret", {"writeOnly": True}) for schema in schemas.values()]
    holding = {name for name, secret in zip(schemas, told, strict=True) if not secret.get("writeOnly")}
    assert holding == {"IssuedKey", "SignedWebhook"}
    assert "key" not in schemas["Provider"]["properties"]
    issuing = {
        each["operationId"]
        for each in operations(described)
        for answered in [json.dumps([each["responses"].get("200"), each["responses"].get("201")])]
        if any(name in answered for name in holding)
    }
    assert issuing == {"create_key", "rotate_key", "create_webhook", "replace_webhook_secret"}


def test_the_page_is_made_of_our_own_files(nobody: Program) -> None:
    answer = nobody.get("docs")
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "<style" not in page
    assert re.findall(r"<script[^>]*>", page) == re.findall(r"<script src=\"/static/[^\"]+\">", page)
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", page)
    assert "'unsafe" not in answer.headers["Content-Security-Policy"]


def test_its_files_are_there() -> None:
    page = (ROOT / "templates/api/docs.html").read_text(encoding="utf-8")
    for name in re.findall(r"static '([^']+)'", page):
        assert finders.find(name)
    for name in ("swagger-ui.css", "swagger-ui-bundle.js"):
        assert finders.find(f"drf_spectacular_sidecar/swagger-ui-dist/{name}")
