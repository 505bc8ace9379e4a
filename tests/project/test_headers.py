"""What every page carries: the security headers of Django, of django-csp and our own, and the correlation
id."""

import re

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, Client, RequestFactory
from pytest_django import Settings

from governance.project.http.correlation import correlate, current_correlation
from governance.project.http.headers import add_security_headers

EXPECTED = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@pytest.mark.django_db
def test_a_page_carries_the_security_headers(client: Client) -> None:
    response = client.get("/admin/login/")
    assert response.status_code == 200
    assert {name: response.headers.get(name) for name in EXPECTED} == EXPECTED
    assert "camera=()" in response["Permissions-Policy"]
    policy = {part.strip().partition(" ")[0]: part for part in response["Content-Security-Policy"].split(";")}
    # The theme evaluates its own attributes and has a style element; no script of anybody else's runs all the same.
    assert policy["script-src"].strip() == "script-src 'self' 'unsafe-eval'"
    assert policy["style-src"].strip() == "style-src 'self' 'unsafe-inline'"
    assert policy["default-src"].strip() == "default-src 'self'"
    assert policy["frame-ancestors"].strip() == "frame-ancestors 'none'"


def test_a_page_that_does_not_exist_carries_them_too(client: Client) -> None:
    response = client.get("/nowhere/")
    assert response.status_code == 404
    assert {name: response.headers.get(name) for name in EXPECTED} == EXPECTED
    assert response["Cache-Control"] == "no-store"
    assert "unsafe" not in response["Content-Security-Policy"]
    assert "script-src 'self'" in response["Content-Security-Policy"]


async def test_a_page_of_the_asynchronous_chain_carries_them_too(async_client: AsyncClient) -> None:
    response = await async_client.get("/nowhere/")
    assert {name: response.headers.get(name) for name in EXPECTED} == EXPECTED
    assert re.fullmatch(r"[0-9a-f]{32}", response["X-Request-ID"])


def test_a_page_over_https_tells_browsers_to_insist(client: Client, settings: Settings) -> None:
    settings.SECURE_HSTS_SECONDS = 86400
    assert client.get("/nowhere/", secure=True)["Strict-Transport-Security"] == "max-age=86400"


def test_what_a_view_says_itself_is_left_alone() -> None:
    def view(_: HttpRequest) -> HttpResponse:
        return HttpResponse(headers={"Cache-Control": "max-age=60"})

    response = add_security_headers(view)(RequestFactory().get("/"))
    assert isinstance(response, HttpResponse)
    assert response["Cache-Control"] == "max-age=60"
    assert response["Cross-Origin-Resource-Policy"] == "same-origin"


# --- The correlation id
# ---------------------------------------------------------------------------------------


def test_a_callers_own_id_is_kept(client: Client) -> None:
    assert client.get("/nowhere/", headers={"X-Request-ID": "order-7.a_b"})["X-Request-ID"] == "order-7.a_b"


@pytest.mark.parametrize("offered", [None, "", "two words", "x" * 65, "a\nlevel=ERROR", "naïve"])
def test_anything_else_is_replaced_by_a_new_one(client: Client, offered: str | None) -> None:
    headers = {} if offered is None else {"X-Request-ID": offered}
    first = client.get("/nowhere/", headers=headers)["X-Request-ID"]
    second = client.get("/nowhere/", headers=headers)["X-Request-ID"]
    assert re.fullmatch(r"[0-9a-f]{32}", first)
    assert re.fullmatch(r"[0-9a-f]{32}", second)
    assert first != second


def test_the_id_is_known_inside_a_request_and_not_after_it() -> None:
    seen: list[str | None] = []

    def view(_: HttpRequest) -> HttpResponse:
        seen.append(current_correlation())
        return HttpResponse()

    response = correlate(view)(RequestFactory().get("/", headers={"X-Request-ID": "inside"}))
    assert isinstance(response, HttpResponse)
    assert seen == ["inside"]
    assert current_correlation() is None


def test_the_id_is_forgotten_when_a_view_fails() -> None:
    def view(_: HttpRequest) -> HttpResponse:
        raise LookupError("inside")

    with pytest.raises(LookupError, match="inside"):
        correlate(view)(RequestFactory().get("/"))
    assert current_correlation() is None
