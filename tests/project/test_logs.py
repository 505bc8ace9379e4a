"""A log line is one line, whatever is in it, and says which request it belongs to."""

import json
import logging
import sys
from typing import Any

import pytest
from django.conf import settings

from governance.project.http.correlation import correlated
from governance.project.logs import CorrelationFilter, LineFormatter, WithoutQuery


def line(message: str, *arguments: object, failed: bool = False) -> str:
    error = sys.exc_info() if failed else None
    record = logging.LogRecord("signalbox.test", logging.WARNING, __file__, 1, message, arguments, error)
    record.created = 1_800_000_000.25
    assert CorrelationFilter().filter(record)
    return LineFormatter().format(record)


def test_a_line_outside_of_a_request() -> None:
    assert line("retired %s", "route-7") == (
        'time=2027-01-15T08:00:00.250+00:00 level=WARNING logger=signalbox.test message="retired route-7"'
    )


def test_a_line_inside_of_a_request_names_it() -> None:
    with correlated(offered="order-7"):
        assert " correlation=order-7 message=retired" in line("retired")


@pytest.mark.parametrize("sent", ["a\nlevel=ERROR", "a\r\nb", 'a"b', "a b=c", "\x1b[2J", "a\u2028b", ""])
def test_what_a_caller_sends_cannot_begin_a_line_or_a_pair(sent: str) -> None:
    written = line("%s", sent)
    assert len(written.splitlines()) == 1
    assert written.isprintable()
    assert json.loads(written.partition(" message=")[2]) == sent


def test_a_traceback_stays_on_the_line() -> None:
    try:
        raise ValueError("broken\nin two")
    except ValueError:
        written = line("failed", failed=True)
    assert len(written.splitlines()) == 1
    traceback = json.loads(written.partition(" traceback=")[2])
    assert traceback.startswith("Traceback (most recent call last)")
    assert "broken\nin two" in traceback


def test_what_is_asked_for_in_a_query_is_in_no_access_log() -> None:
    arguments = ("127.0.0.1:5", "GET", "/v1/models?key=sb-secret", "1.1", 401)
    record = logging.LogRecord("uvicorn.access", logging.INFO, "", 1, '%s - "%s %s HTTP/%s" %d', arguments, None)
    assert WithoutQuery().filter(record)
    assert record.getMessage() == '127.0.0.1:5 - "GET /v1/models HTTP/1.1" 401'


def test_the_access_log_of_the_server_is_filtered() -> None:
    loggers: dict[str, Any] = settings.LOGGING["loggers"]  # type: ignore[assignment]
    assert loggers["uvicorn.access"]["filters"] == ["without_query"]
