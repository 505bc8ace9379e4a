"""From what a provider answers, or does not answer, to one row of the failure table.

Three rules shape this module:

* **A vendor's words choose no kind that touches a circuit.** Kinds that rest a route for everybody are chosen by the
  HTTP status and by the vendor's code alone, because an error message may quote the caller's prompt. Words decide
  only between "invalid" and "too long".
* **A vendor's words go to nobody but the caller, and only where the caller is at fault.** They are part of
  ``Failure.message`` for ``invalid_request`` and ``context_exceeded``, redacted and cut. In all other cases they may
  name our account or our key, and the message is our own sentence with status, code and parameter.
* **What is logged is the exception, and it has no words.** ``str()`` of a :class:`ProviderFailed` holds provider,
  kind, status and code; rows keep the kind.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import Any

import aiohttp
import orjson

from routing.core.failures import CallFailed, Failure, FailureKind
from routing.providers.base import Endpoint, Phase
from routing.providers.outbound import DestinationBlocked

MAX_MESSAGE = 600
"""The most characters of a vendor's message that are passed on."""
MAX_WAIT_SECONDS = 24 * 3600.0
"""The longest advice to wait that is believed; daily quotas are the longest that vendors announce."""

STATUS_KINDS: Mapping[int, FailureKind] = MappingProxyType(
    {
        400: FailureKind.INVALID_REQUEST,
        401: FailureKind.AUTH,
        402: FailureKind.QUOTA_EXHAUSTED,
        403: FailureKind.AUTH,
        404: FailureKind.NOT_FOUND,
        405: FailureKind.NOT_FOUND,
        407: FailureKind.AUTH,
        408: FailureKind.TIMEOUT,
        409: FailureKind.TRANSIENT,
        410: FailureKind.NOT_FOUND,
        413: FailureKind.CONTEXT_EXCEEDED,
        421: FailureKind.TRANSIENT,
        422: FailureKind.INVALID_REQUEST,
        424: FailureKind.TRANSIENT,
        425: FailureKind.TRANSIENT,
        429: FailureKind.RATE_LIMITED,
        498: FailureKind.TRANSIENT,
        499: FailureKind.TRANSIENT,
    }
)
"""What a status means by itself. Other 4xx are the caller's fault, all above are transient, redirects and 1xx are a
base URL that points elsewhere (``not_found``), other 2xx are unreadable."""

CODE_KINDS: Mapping[str, FailureKind] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "insufficient_quota",
                "insufficient_balance",
                "insufficient_credits",
                "insufficient_funds",
                "billing_error",
                "billing_hard_limit_reached",
                "billing_not_active",
                "credit_balance_too_low",
                "exceeded_current_quota_error",
                "hard_limit_reached",
                "out_of_credits",
                "payment_required",
                "quota",
                "quota_exceeded",
                "spend_limit_exceeded",
                "usage_limit_reached",
            ),
            FailureKind.QUOTA_EXHAUSTED,
        ),
        **dict.fromkeys(
            (
                "context_length_exceeded",
                "context_window_exceeded",
                "exceed_context_size_error",
                "model_context_window_exceeded",
                "prompt_too_long",
                "request_too_large",
                "string_above_max_length",
            ),
            FailureKind.CONTEXT_EXCEEDED,
        ),
        **dict.fromkeys(
            ("model_not_found", "not_found_error", "model_not_available", "model_not_supported", "deploymentnotfound"),
            FailureKind.NOT_FOUND,
        ),
        **dict.fromkeys(
            (
                "api_key_invalid",
                "authentication_error",
                "invalid_api_key",
                "invalid_authentication",
                "permission_denied",
                "permission_error",
                "account_deactivated",
            ),
            FailureKind.AUTH,
        ),
        **dict.fromkeys(
            (
                "content_filter",
                "content_policy_violation",
                "data_inspection_failed",
                "moderation_blocked",
                "responsibleaipolicyviolation",
            ),
            FailureKind.REFUSED,
        ),
        **dict.fromkeys(
            ("rate_limit_error", "rate_limit_exceeded", "resource_exhausted", "rate_limited", "too_many_requests"),
            FailureKind.RATE_LIMITED,
        ),
        **dict.fromkeys(
            (
                "api_error",
                "engine_overloaded",
                "internal_error",
                "internal_server_error",
                "overloaded",
                "overloaded_error",
                "server_error",
                "service_unavailable",
                "unavailable",
            ),
            FailureKind.TRANSIENT,
        ),
        **dict.fromkeys(("timeout", "timeout_error", "request_timeout", "deadline_exceeded"), FailureKind.TIMEOUT),
        **dict.fromkeys(
            (
                "badrequesterror",
                "bad_request",
                "invalid_argument",
                "invalid_request",
                "invalid_request_error",
                "invalid_value",
            ),
            FailureKind.INVALID_REQUEST,
        ),
    }
)
"""What a vendor's ``code`` or ``type`` means, in lower case."""

# Where the status is unambiguous, only codes of these kinds may overrule it.
_OVERRULE_STATUS = frozenset(
    {FailureKind.QUOTA_EXHAUSTED, FailureKind.CONTEXT_EXCEEDED, FailureKind.NOT_FOUND, FailureKind.REFUSED}
)
_OVERRULE_REQUEST_FAULT = _OVERRULE_STATUS | {FailureKind.AUTH, FailureKind.RATE_LIMITED}
_CALLERS_FAULT = frozenset({FailureKind.INVALID_REQUEST, FailureKind.CONTEXT_EXCEEDED})
_WITH_ADVICE = frozenset({FailureKind.RATE_LIMITED, FailureKind.TRANSIENT, FailureKind.TIMEOUT})

_TOO_LONG = re.compile(
    r"maximum context length|context length|context window|context size|prompt is too long|input is too long"
    r"|too many (?:input |prompt )?tokens|exceeds the (?:model's )?(?:maximum|limit) (?:number )?of tokens",
    re.IGNORECASE,
)
_CODE = re.compile(r"\A[A-Za-z][A-Za-z0-9_.-]{0,63}\Z")
_PARAMETER = re.compile(r"\A[A-Za-z_$][A-Za-z0-9_.$\[\]-]{0,127}\Z")
_SECONDS = re.compile(r"\A[0-9]{1,12}(?:\.[0-9]{1,9})?\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_SECRETS = (
    re.compile(r"(?<=://)[^/\s@]+@"),
    re.compile(r"(?i)(?:(?<=bearer )|(?<=basic ))\S+"),
    re.compile(r"(?i)(?:(?<=key=)|(?<=token=)|(?<=secret=)|(?<=password=)|(?<=sig=))[^&\s\"']+"),
    re.compile(r"\b(?:sk|pk|rk|gsk|xai|pplx|hf|r8|nvapi|fw|tgp|csk|AKIA|AIza|ghp|glpat)[-_]?[A-Za-z0-9_\-*.…]{8,}"),
    re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"),
    re.compile(r"(?<![A-Za-z0-9_+=])(?=[A-Za-z_+=]*[0-9])(?=[0-9_+=]*[A-Za-z])[A-Za-z0-9_+=]{24,}"),
    re.compile(r"(?<!\S)[^\s*]*\*{3,}\S*"),
)
_DEEPEST = 4  # messages within messages
_MASK = "[redacted]"


class ProviderFailed(CallFailed):
    """A :class:`CallFailed` of one provider whose own text is safe to log: provider, kind and code, no message."""

    def __init__(self, failure: Failure, *, provider: str) -> None:
        super().__init__(failure)
        self.provider = provider
        code = f" ({failure.code})" if failure.code else ""
        self.args = (f"{provider}: {failure.kind.value}{code}",)


@dataclass(frozen=True, slots=True)
class VendorError:
    """What a vendor's error says: codes in the order they are believed, the parameter, and the words."""

    codes: tuple[str, ...] = ()
    parameter: str = ""
    message: str = ""
    status: int | None = None
    retry_after: float | None = None


def classify_answer(
    *, endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes, now: datetime
) -> Failure:
    """The failure that an answer with an HTTP status other than 200 is.

    Args:
        endpoint: whom we asked; its key is removed from whatever is passed on.
        status: the HTTP status.
        headers: at least ``retry-after`` and ``retry-after-ms`` where they were sent, names in lower case.
        body: the body, or as much of it as arrived.
        now: against which a date in ``retry-after`` is measured; aware.
    """
    vendor = read_error(body)
    kind = _kind_of_status(status, vendor)
    described = f"{endpoint.provider} answered HTTP {status}"
    if 300 <= status < 400:
        described += ", a redirect, which is not followed: the provider's base URL has to be corrected"
    advice = retry_after(headers, now=now)  # 0 is advice: at once
    advice = vendor.retry_after if advice is None else advice
    return _failure(kind, described, vendor, endpoint, retry_after=advice, is_free=status >= 300)


def classify_error_object(error: object, *, endpoint: Endpoint) -> Failure:
    """The failure that an error inside an answer of status 200 is: by its own status, by its codes, else transient."""
    vendor = _read_object(error)
    if vendor.status is not None:
        kind = _kind_of_status(vendor.status, vendor)
    else:
        kind = next(_kinds(vendor.codes), FailureKind.TRANSIENT)
        if kind is FailureKind.INVALID_REQUEST and _TOO_LONG.search(vendor.message):
            kind = FailureKind.CONTEXT_EXCEEDED
    described = f"{endpoint.provider} reported an error inside its answer"
    return _failure(kind, described, vendor, endpoint, retry_after=vendor.retry_after, is_free=True)


def connection_failure(error: BaseException, *, endpoint: Endpoint, phase: Phase) -> Failure:
    """The failure that an exception of the HTTP client is.

    The client wraps what happened in exceptions of its own, therefore their causes are judged as well. A destination
    that the outbound policy blocks is ``not_found``: as far as this installation is concerned there is no such place,
    asking again will not help, other routes may serve, and the route rests for the settled time; none of the gentler
    kinds stops the retries, and ``forbidden`` would end the call for what is the operator's fault.
    """
    who = endpoint.provider
    chain = tuple(_causes(error))
    for each in chain:
        if isinstance(each, DestinationBlocked):
            return Failure(FailureKind.NOT_FOUND, f"{who}: {each}", code="destination_blocked", is_free=True)
    for each in chain:
        if isinstance(each, aiohttp.ConnectionTimeoutError):
            return timed_out(endpoint=endpoint, phase=Phase.CONNECT)
        if isinstance(each, aiohttp.ClientConnectorDNSError):
            return _not_connected(f"{who}: the host's name cannot be resolved", code="name_not_resolved")
        if isinstance(each, aiohttp.ClientSSLError):
            return _not_connected(f"{who}: no TLS connection could be made", code="tls_failed")
        if isinstance(each, aiohttp.ClientConnectorError):
            return _not_connected(f"{who}: no connection could be made", code="not_connected")
        if isinstance(each, aiohttp.ClientResponseError | aiohttp.InvalidURL):
            return Failure(FailureKind.UNREADABLE, f"{who}: the answer is not HTTP", code="not_http")
    for each in chain:
        if isinstance(each, TimeoutError):
            return timed_out(endpoint=endpoint, phase=phase)
    if phase in (Phase.CONNECT, Phase.ANSWER, Phase.FIRST_EVENT):
        sentence = f"{who}: the connection broke before the answer was complete"
    else:
        sentence = f"{who}: the connection broke in the middle of the answer"
    return Failure(FailureKind.TRANSIENT, sentence, code="connection_broken")


def timed_out(*, endpoint: Endpoint, phase: Phase, total: bool = False) -> Failure:
    """The failure that one of the time-outs is; the message says which, and how long it was."""
    timeouts = endpoint.timeouts
    who = endpoint.provider
    if total:
        return Failure(
            FailureKind.TIMEOUT, f"{who}: no complete answer within {timeouts.total:g} s", code="total_timeout"
        )
    sentences = {
        Phase.CONNECT: f"no connection within {timeouts.connect:g} s",
        Phase.ANSWER: f"no complete answer within {timeouts.total:g} s",
        Phase.FIRST_EVENT: f"no event within {timeouts.first_event:g} s",
        Phase.BETWEEN_EVENTS: f"no further event within {timeouts.between_events:g} s",
    }
    return Failure(
        FailureKind.TIMEOUT,
        f"{who}: {sentences[phase]}",
        code=f"{phase.value}_timeout",
        is_free=phase is Phase.CONNECT,
    )


def _not_connected(message: str, *, code: str) -> Failure:
    """Nothing could be sent, so nothing is charged."""
    return Failure(FailureKind.TRANSIENT, message, code=code, is_free=True)


def unreadable(what: str, *, endpoint: Endpoint) -> ProviderFailed:
    """The exception for an answer of status 200 that is not what was promised; ``what`` says so without content."""
    return ProviderFailed(Failure(FailureKind.UNREADABLE, f"{endpoint.provider}: {what}"), provider=endpoint.provider)


def cut_off(what: str, *, endpoint: Endpoint) -> ProviderFailed:
    """The exception for an answer that ended before it was complete."""
    return ProviderFailed(
        Failure(FailureKind.TRANSIENT, f"{endpoint.provider}: {what}", code="cut_off"),
        provider=endpoint.provider,
    )


def retry_after(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """The seconds a provider asks us to wait: milliseconds header, seconds, or HTTP date; ``None`` without advice.

    Negative, past, empty, not-a-number, infinite and absurd values (over a day, seconds since 1970) are no advice.
    """
    milliseconds = headers.get("retry-after-ms", "").strip()
    if _SECONDS.match(milliseconds) and float(milliseconds) / 1000 <= MAX_WAIT_SECONDS:
        return float(milliseconds) / 1000
    value = headers.get("retry-after", "").strip()
    if _SECONDS.match(value):
        seconds = float(value)
        return seconds if seconds <= MAX_WAIT_SECONDS else None
    if not value or value[0] not in "MTWFS":
        return None
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    seconds = (date - now).total_seconds()
    return seconds if 0 <= seconds <= MAX_WAIT_SECONDS else None


def redact(text: str, *, secrets: Sequence[str] = ()) -> str:
    """A vendor's text without keys, credentials in URLs and control characters, cut to :data:`MAX_MESSAGE`.

    Too much is removed rather than too little: every long token of letters and digits looks like a key.
    """
    text = _CONTROL.sub(" ", text[: 8 * MAX_MESSAGE])
    for secret in secrets:
        if secret:
            text = text.replace(secret, _MASK)
    for pattern in _SECRETS:
        text = pattern.sub(_MASK, text)
    text = text.strip()
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"


def read_error(body: bytes) -> VendorError:
    """Read an error's body, in any of the shapes vendors use; an empty error if it is none of them."""
    try:
        document = orjson.loads(body)
    except ValueError:
        return VendorError()
    if isinstance(document, list) and document:
        document = document[0]
    if not isinstance(document, dict):
        return VendorError()
    inner = document.get("error")
    if isinstance(inner, dict):
        return _read_object(inner)
    if isinstance(inner, str):
        return _read_object({**document, "message": inner})
    return _read_object(document)


def _read_object(error: object) -> VendorError:
    if isinstance(error, str):
        return VendorError(message=error)
    if not isinstance(error, Mapping):
        return VendorError()
    status: int | None = None
    codes: list[str] = []
    for name in ("code", "type", "status"):
        value = error.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            if 400 <= value <= 599:
                status = value
        elif isinstance(value, str) and _CODE.match(value):
            codes.append(value)
    reasons, wait = _details(error.get("details"))
    codes = [*reasons, *codes]
    parameter = error.get("param")
    message = error.get("message", error.get("detail"))
    words, place = _words(message)
    return VendorError(
        codes=tuple(codes),
        parameter=parameter if isinstance(parameter, str) else place,
        message=words,
        status=status,
        retry_after=wait,
    )


def _details(details: object) -> tuple[list[str], float | None]:
    """What Google's errors have besides: reasons, which are exacter than the code, and seconds to wait."""
    reasons: list[str] = []
    wait: float | None = None
    for detail in details if isinstance(details, list) else ():
        if not isinstance(detail, Mapping):
            continue
        reason, delay = detail.get("reason"), detail.get("retryDelay")
        if isinstance(reason, str) and _CODE.match(reason):
            reasons.append(reason)
        if isinstance(delay, str) and _SECONDS.match(delay.removesuffix("s")):
            seconds = float(delay.removesuffix("s"))
            wait = seconds if seconds <= MAX_WAIT_SECONDS else None
    return reasons, wait


def _words(message: object) -> tuple[str, str]:
    """A vendor's message as text, and the field it is about: validators answer with lists of places."""
    for _ in range(_DEEPEST):
        if not isinstance(message, Mapping):
            break
        message = message.get("detail", message.get("message"))
    if isinstance(message, str):
        return message, ""
    if isinstance(message, Sequence) and message and isinstance(message[0], Mapping):
        first: Mapping[str, Any] = message[0]
        place = first.get("loc")
        parts = [str(part) for part in place if part != "body"] if isinstance(place, list | tuple) else []
        words = first.get("msg")
        return (words if isinstance(words, str) else ""), ".".join(parts)
    return "", ""


def _kinds(codes: Sequence[str]) -> Iterator[FailureKind]:
    for code in codes:
        kind = CODE_KINDS.get(code.lower())
        if kind is not None:
            yield kind


def _kind_of_status(status: int, vendor: VendorError) -> FailureKind:
    by_status = STATUS_KINDS.get(status)
    if by_status is None:
        if status >= 500:
            by_status = FailureKind.TRANSIENT
        elif status >= 400:
            by_status = FailureKind.INVALID_REQUEST
        elif 200 <= status < 300:
            by_status = FailureKind.UNREADABLE
        else:
            by_status = FailureKind.NOT_FOUND
    overruling = _OVERRULE_REQUEST_FAULT if by_status is FailureKind.INVALID_REQUEST else _OVERRULE_STATUS
    if status >= 400:
        for kind in _kinds(vendor.codes):
            if kind in overruling:
                return kind
    if by_status is FailureKind.INVALID_REQUEST and _TOO_LONG.search(vendor.message):
        return FailureKind.CONTEXT_EXCEEDED
    return by_status


def _failure(
    kind: FailureKind,
    described: str,
    vendor: VendorError,
    endpoint: Endpoint,
    *,
    retry_after: float | None,
    is_free: bool,
) -> Failure:
    """The failure, with the advice to wait where its kind heeds any."""
    secrets = (endpoint.api_key, *(value for _, value in endpoint.headers))
    code = next((each for each in vendor.codes if redact(each, secrets=secrets) == each), "")
    parameter = vendor.parameter
    if not _PARAMETER.match(parameter) or redact(parameter, secrets=secrets) != parameter:
        parameter = ""
    message = described
    if code:
        message += f" ({code})"
    if kind in _CALLERS_FAULT and vendor.message:
        message += f": {redact(vendor.message, secrets=secrets)}"
    advice = retry_after if kind in _WITH_ADVICE else None
    return Failure(kind, message, retry_after=advice, code=code, parameter=parameter, is_free=is_free)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and what it came from, nearest first; connector errors keep theirs in ``os_error``."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        each = waiting.pop(0)
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        waiting += [each.__cause__, each.__context__]
        if isinstance(each, aiohttp.ClientConnectorError):
            waiting.append(each.os_error)
