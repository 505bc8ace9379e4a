import logging
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.core.failures import FailureKind as K
from routing.providers.base import Endpoint
from routing.providers.errors import (
    MAX_MESSAGE,
    ProviderFailed,
    classify_answer,
    classify_error_object,
    redact,
    retry_after,
)

NOW = datetime(2026, 7, 25, 12, 0, 0, tzinfo=UTC)
KEY = "sk-proj-S3cr3tKeyOfOurs0000"
ENDPOINT = Endpoint(
    provider="prod-east",
    adapter_type="openai",
    base_url="https://api.example.com/v1",
    api_key=KEY,
    headers=(("x-extra", "value-of-a-header"),),
)


def error(**fields: Any) -> bytes:
    return orjson.dumps({"error": fields})


def kind(status: int, body: bytes = b"") -> K:
    return classify_answer(endpoint=ENDPOINT, status=status, headers={}, body=body, now=NOW).kind


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, K.INVALID_REQUEST), (401, K.AUTH), (402, K.QUOTA_EXHAUSTED), (403, K.AUTH), (404, K.NOT_FOUND),
        (405, K.NOT_FOUND), (408, K.TIMEOUT), (409, K.TRANSIENT), (410, K.NOT_FOUND), (413, K.CONTEXT_EXCEEDED),
        (415, K.INVALID_REQUEST), (418, K.INVALID_REQUEST), (422, K.INVALID_REQUEST), (425, K.TRANSIENT),
        (429, K.RATE_LIMITED), (500, K.TRANSIENT), (501, K.TRANSIENT), (502, K.TRANSIENT), (503, K.TRANSIENT),
        (504, K.TRANSIENT), (520, K.TRANSIENT), (524, K.TRANSIENT), (529, K.TRANSIENT), (599, K.TRANSIENT),
        (301, K.NOT_FOUND), (302, K.NOT_FOUND), (307, K.NOT_FOUND), (201, K.UNREADABLE), (204, K.UNREADABLE),
    ],
)  # fmt: skip
@pytest.mark.parametrize("body", [b"", b"<html>no</html>", b"{", b'{"error": null}', b"[]", b"7"])
def test_status_alone(status: int, expected: K, body: bytes) -> None:
    assert kind(status, body) is expected


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (429, error(code="insufficient_quota", type="insufficient_quota"), K.QUOTA_EXHAUSTED),
        (429, error(type="insufficient_quota", code=None), K.QUOTA_EXHAUSTED),
        (429, error(code="rate_limit_exceeded", type="tokens"), K.RATE_LIMITED),
        (429, error(code="billing_hard_limit_reached"), K.QUOTA_EXHAUSTED),
        (429, error(type="exceeded_current_quota_error"), K.QUOTA_EXHAUSTED),
        (403, error(code="quota"), K.QUOTA_EXHAUSTED),
        (403, error(code="insufficient_quota"), K.QUOTA_EXHAUSTED),
        (403, error(code="model_not_found"), K.NOT_FOUND),
        (503, error(code="insufficient_quota"), K.QUOTA_EXHAUSTED),
        (503, error(code="rate_limit_exceeded"), K.TRANSIENT),
        (500, error(code="invalid_api_key"), K.TRANSIENT),
        (400, error(code="context_length_exceeded"), K.CONTEXT_EXCEEDED),
        (400, error(code="string_above_max_length"), K.CONTEXT_EXCEEDED),
        (400, error(type="exceed_context_size_error"), K.CONTEXT_EXCEEDED),
        (400, error(message="This model's maximum context length is 4096 tokens."), K.CONTEXT_EXCEEDED),
        (400, error(code=400, type="BadRequestError", message="prompt is too long"), K.CONTEXT_EXCEEDED),
        (400, error(code="model_not_found"), K.NOT_FOUND),
        (400, error(code="invalid_api_key"), K.AUTH),
        (400, error(code="content_filter"), K.REFUSED),
        (400, error(code="content_policy_violation"), K.REFUSED),
        (400, error(code="invalid_value", param="messages[0].role"), K.INVALID_REQUEST),
        (404, error(code="invalid_value"), K.NOT_FOUND),
        (401, error(code="invalid_request_error"), K.AUTH),
        (422, b'{"detail":[{"loc":["body","messages"],"msg":"required","input":"prompt"}]}', K.INVALID_REQUEST),
        (400, b'[{"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT"}}]', K.INVALID_REQUEST),
        (400, b'{"code":"Client specified an invalid argument","error":"Incorrect API key"}', K.INVALID_REQUEST),
        (429, b'{"object":"error","message":"slow down","type":"rate_limited","code":"1300"}', K.RATE_LIMITED),
    ],
    ids=lambda value: None if isinstance(value, bytes) else str(value),
)  # fmt: skip
def test_codes_next_to_the_status(status: int, body: bytes, expected: K) -> None:
    assert kind(status, body) is expected


@pytest.mark.parametrize(
    "words", ["Incorrect API key provided", "insufficient_quota", "rate limit reached", "model not found"]
)
def test_words_choose_no_kind_that_rests_a_route(words: str) -> None:
    """The message may quote the prompt: a caller could otherwise switch a route off for everybody."""
    assert kind(400, error(message=f"invalid content: '{words}'")) is K.INVALID_REQUEST


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"message": "quota", "code": "insufficient_quota"}, K.QUOTA_EXHAUSTED),
        ({"type": "overloaded_error"}, K.TRANSIENT),
        ({"type": "server_error", "code": None}, K.TRANSIENT),
        ({"code": 429, "message": "x"}, K.RATE_LIMITED),
        ({"code": "429"}, K.RATE_LIMITED),
        ({"code": 502}, K.TRANSIENT),
        ({"code": 402}, K.QUOTA_EXHAUSTED),
        ({"code": 400, "message": "maximum context length"}, K.CONTEXT_EXCEEDED),
        ({"code": "rate_limit_exceeded"}, K.RATE_LIMITED),
        ({"type": "authentication_error"}, K.AUTH),
        ({"type": "invalid_request_error"}, K.INVALID_REQUEST),
        ({"type": "invalid_request_error", "code": "context_length_exceeded"}, K.CONTEXT_EXCEEDED),
        ({"code": "content_filter"}, K.REFUSED),
        ({"code": "timeout"}, K.TIMEOUT),
        ({"code": "something_new"}, K.TRANSIENT),
        ({}, K.TRANSIENT),
        ("just words", K.TRANSIENT),
        (None, K.TRANSIENT),
        (7, K.TRANSIENT),
        ({"code": True, "type": ["x"]}, K.TRANSIENT),
    ],
    ids=str,
)
def test_errors_inside_a_200(body: object, expected: K) -> None:
    assert classify_error_object(body, endpoint=ENDPOINT).kind is expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "20"}, 20.0),
        ({"retry-after": " 20 "}, 20.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "86400"}, 86400.0),
        ({"retry-after": "86401"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Infinity"}, None),
        ({"retry-after": "1e9"}, None),
        ({"retry-after": "1e3"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "10, 20"}, None),
        ({"retry-after": "20s"}, None),
        ({"retry-after": "٢٠"}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "1785000000"}, None),
        ({"retry-after": "Sat, 25 Jul 2026 12:05:00 GMT"}, 300.0),
        ({"retry-after": "Saturday, 25-Jul-26 12:05:00 GMT"}, 300.0),
        ({"retry-after": "Sat Jul 25 12:05:00 2026"}, 300.0),
        ({"retry-after": "Sat, 25 Jul 2026 14:05:00 +0200"}, 300.0),
        ({"retry-after": "Sat, 25 Jul 2026 12:00:00 GMT"}, 0.0),
        ({"retry-after": "Sat, 25 Jul 2026 11:59:59 GMT"}, None),
        ({"retry-after": "Mon, 25 Jul 2036 12:05:00 GMT"}, None),
        ({"retry-after": "Sat, 99 Jul 2026 12:05:00 GMT"}, None),
        ({"retry-after": "Tomorrow"}, None),
        ({"retry-after": "Sat, 25 Jul 99999999999 12:05:00 GMT"}, None),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "-1", "retry-after": "9"}, 9.0),
        ({"retry-after-ms": "nan", "retry-after": "9"}, 9.0),
        ({"retry-after-ms": "99999999999", "retry-after": "9"}, 9.0),
        ({"retry-after-ms": ""}, None),
    ],
    ids=str,
)
def test_advice_to_wait(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after(headers, now=NOW) == expected


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_header_breaks_the_reading_of_advice(seconds: str, milliseconds: str) -> None:
    found = retry_after({"retry-after": seconds, "retry-after-ms": milliseconds}, now=NOW)
    assert found is None or 0 <= found <= 86400


def test_advice_in_a_body_travels_too() -> None:
    detail = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7.5s"}
    busy = {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [detail]}
    assert classify_error_object(busy, endpoint=ENDPOINT).retry_after == 7.5
    assert classify_error_object({**busy, "code": 403}, endpoint=ENDPOINT).retry_after is None
    body = orjson.dumps({"error": busy})
    for headers, expected in (({}, 7.5), ({"retry-after": "0"}, 0.0)):
        found = classify_answer(endpoint=ENDPOINT, status=429, headers=headers, body=body, now=NOW)
        assert found.retry_after == expected


def test_advice_travels_with_the_failures_that_heed_it() -> None:
    headers = {"retry-after": format_datetime(NOW.replace(minute=1), usegmt=True)}
    for status, expected in ((429, 60.0), (503, 60.0), (529, 60.0), (401, None), (400, None)):
        found = classify_answer(endpoint=ENDPOINT, status=status, headers=headers, body=b"", now=NOW)
        assert found.retry_after == expected
    at_once = classify_answer(endpoint=ENDPOINT, status=429, headers={"retry-after": "0"}, body=b"", now=NOW)
    assert at_once.retry_after == 0.0  # which is advice, and no absence of it
    quota = classify_answer(
        endpoint=ENDPOINT, status=429, headers=headers, body=error(code="insufficient_quota"), now=NOW
    )
    assert quota.retry_after is None


@pytest.mark.parametrize(
    "secret",
    [
        KEY,
        "value-of-a-header",
        "sk-abcdefgh12345678",
        "sk-ant-api03-AbCdEfGh-1234_5678",
        "gsk_AbCdEfGh12345678",
        "xai-AbCdEfGh12345678",
        "AIzaSyA1234567890abcdefghijklmnopqrstu",
        "sk-pr********************4321",
        "abc***xyz",
        "a1b2c3d4e5f6a7b8c9d0e1f2a3b4c5d6",
        "123e4567-e89b-12d3-a456-426614174000",
    ],
)
def test_what_looks_like_a_key_is_removed_everywhere(secret: str) -> None:
    body = error(
        message=f"Incorrect API key provided: {secret}. Bearer {secret} https://x/?api_key={secret}&a=b",
        param=secret,
        code=secret,
    )
    for status in (400, 401, 413, 429, 500):
        found = classify_answer(endpoint=ENDPOINT, status=status, headers={}, body=body, now=NOW)
        assert secret not in repr(found)


def test_credentials_in_urls_and_control_characters_are_removed() -> None:
    text = redact("see https://user:hunter2@host/x\r\nset-cookie: a\x00b\u2028 token=abc&x=1")
    assert "hunter2" not in text
    assert "token=abc" not in text
    assert "\r" not in text
    assert "\x00" not in text
    assert "see https://[redacted]host/x" in text


def test_ordinary_words_stay() -> None:
    text = "messages[2].content must be a string; the model claude-sonnet-4-5-20250929 takes max_completion_tokens"
    assert redact(text) == text


@given(st.text(), st.text(max_size=5))
def test_messages_are_bounded(text: str, secret: str) -> None:
    assert len(redact(text * 50, secrets=(secret,))) <= MAX_MESSAGE


@pytest.mark.parametrize("unit", ["a", "*", "-", "://", "=", "1a", "sk-", "\ud800", "key=", "_1"])
def test_long_messages_cost_little(unit: str) -> None:
    redact(unit * 1_000_000)


def test_a_vendors_words_reach_the_caller_only_where_the_caller_is_at_fault() -> None:
    body = error(message="'my secret prompt' is not valid", code="some_code", param="messages[0]")
    for status in (400, 422, 413):
        found = classify_answer(endpoint=ENDPOINT, status=status, headers={}, body=body, now=NOW)
        assert "my secret prompt" in found.message
        assert (found.code, found.parameter) == ("some_code", "messages[0]")
    for status in (401, 402, 403, 404, 408, 429, 500, 503):
        found = classify_answer(endpoint=ENDPOINT, status=status, headers={}, body=body, now=NOW)
        assert found.message == f"prod-east answered HTTP {status} (some_code)"


def test_a_validators_list_is_read_without_the_input_it_quotes() -> None:
    body = orjson.dumps(
        {
            "object": "error",
            "message": {
                "detail": [
                    {
                        "type": "extra_forbidden",
                        "loc": ["body", "stream_options", "include_usage"],
                        "msg": "Extra inputs are not permitted",
                        "input": "my secret prompt",
                    }
                ]
            },
            "type": "invalid_request_error",
        }
    )
    found = classify_answer(endpoint=ENDPOINT, status=422, headers={}, body=body, now=NOW)
    assert found.parameter == "stream_options.include_usage"
    assert found.message.endswith(": Extra inputs are not permitted")
    assert "prompt" not in found.message


def test_what_is_logged_of_a_failure_has_no_words(caplog: pytest.LogCaptureFixture) -> None:
    body = error(message="my secret prompt", code="invalid_value")
    failure = classify_answer(endpoint=ENDPOINT, status=400, headers={}, body=body, now=NOW)
    try:
        raise ProviderFailed(failure, provider="prod-east")
    except ProviderFailed as failed:
        logging.getLogger("x").exception("call failed: %s %r", failed, failed)
    assert "prod-east: invalid_request (invalid_value)" in caplog.text
    assert "my secret prompt" not in caplog.text


def test_the_key_is_in_no_representation() -> None:
    assert KEY not in repr(ENDPOINT)
    assert "value-of-a-header" not in repr(ENDPOINT)


def test_an_error_nested_as_deep_as_json_can_be_is_classified() -> None:
    body = b'{"error":{"message":' + b'{"detail":' * 1010 + b'"x"' + b"}" * 1011 + b"}"
    assert kind(500, body) is K.TRANSIENT
    assert kind(400, body) is K.INVALID_REQUEST
