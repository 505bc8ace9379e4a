"""A log line is one line, whatever is in it, and says which request it belongs to."""

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.conf import settings

from governance.project.http.correlation import correlated
from governance.project.logs import JsonFormatter, LineFormatter, ServerAccess, TraceFilter
from governance.trace import Mark, marks, note, traced
from tests.project.processes import installation_environment, run_python, running_web_process


def line(
    message: str, *arguments: object, failed: bool = False, formatter: LineFormatter | None = None, **figures: object
) -> str:
    error = sys.exc_info() if failed else None
    record = logging.LogRecord("signalbox.test", logging.WARNING, __file__, 1, message, arguments, error)
    record.created = 1_800_000_000.25
    record.__dict__.update(figures)
    assert TraceFilter().filter(record)
    return (formatter or LineFormatter()).format(record)


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


def test_a_line_says_what_it_belongs_to_in_a_fixed_order() -> None:
    with correlated(offered="order-7", task="task-1"):
        note(provider="prod-east", model="fast")
        note(call="call-1", application="helpdesk", configuration="support-chat")
        note(provider="prod-west")  # the next route
        assert line("asked", status=200, milliseconds=12.5).partition("correlation=")[2] == (
            "order-7 task=task-1 call=call-1 application=helpdesk configuration=support-chat provider=prod-west"
            " model=fast status=200 milliseconds=12.5 message=asked"
        )
    assert "order-7" not in line("afterwards")


def test_what_is_not_known_is_not_on_the_line() -> None:
    with correlated(offered="order-7"):
        note(application="", call="call-1")
        assert line("asked", status=None).partition("correlation=")[2] == "order-7 call=call-1 message=asked"


def test_nothing_can_be_noted_but_marks_and_nothing_outside_of_a_trace() -> None:
    note(call="call-1")
    assert dict(marks()) == {}
    with traced(correlation="a"), pytest.raises(ValueError, match="prompt"):
        note(prompt="Hello")


async def test_a_trace_is_shared_with_what_it_starts_and_with_nothing_else() -> None:
    async def serve(name: str) -> dict[str, str]:
        with traced(correlation=name):
            await asyncio.gather(asyncio.create_task(find(name)))
            return dict(marks())

    async def find(name: str) -> None:
        await asyncio.sleep(0)
        note(call=f"call of {name}")

    first, second = await asyncio.gather(serve("a"), serve("b"))
    assert first == {Mark.CORRELATION: "a", Mark.CALL: "call of a"}
    assert second == {Mark.CORRELATION: "b", Mark.CALL: "call of b"}


@pytest.mark.parametrize("sent", ["plain", "a\nb", 'a"b', "\ud83d", "\u2028", "\x00", ""])
def test_json_is_one_object_a_line_whatever_is_in_it(sent: str) -> None:
    with correlated(offered="order-7"):
        written = line("%s", sent, formatter=JsonFormatter(), status=404)
    assert written.isascii()
    assert len(written.splitlines()) == 1
    assert json.loads(written) == {
        "time": "2027-01-15T08:00:00.250+00:00",
        "level": "WARNING",
        "logger": "signalbox.test",
        "correlation": "order-7",
        "status": 404,
        "message": sent,
    }


def test_json_holds_the_traceback() -> None:
    try:
        raise ValueError("broken\nin two")
    except ValueError:
        written = line("failed", failed=True, formatter=JsonFormatter())
    assert "broken\nin two" in json.loads(written)["traceback"]


def server_access(path: str, status: int) -> tuple[bool, str]:
    """Whether uvicorn's line about a request is written, and how it reads."""
    arguments = ("127.0.0.1:5", "GET", path, "1.1", status)
    record = logging.LogRecord("uvicorn.access", logging.INFO, "", 1, '%s - "%s %s HTTP/%s" %d', arguments, None)
    return ServerAccess().filter(record), record.getMessage()


def test_what_is_asked_for_in_a_query_is_in_no_access_log() -> None:
    written, text = server_access("/admin/?key=sb-secret", 401)
    assert (written, text) == (True, '127.0.0.1:5 - "GET /admin/ HTTP/1.1" 401')


def test_the_server_says_nothing_of_calls_which_the_gateway_tells_itself() -> None:
    assert server_access("/v1/models/sb-secret", 200)[0] is False
    assert server_access("/v10", 404)[0] is True


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_fill_no_log(path: str) -> None:
    assert server_access(path, 200)[0] is False


def test_the_access_log_of_the_server_is_filtered() -> None:
    loggers: dict[str, Any] = settings.LOGGING["loggers"]  # type: ignore[assignment]
    assert loggers["uvicorn.access"]["filters"] == ["server_access"]


def test_a_web_process_writes_nothing_but_json_when_it_is_told_to(tmp_path: Path) -> None:
    environ = {
        **installation_environment(data_folder=tmp_path),
        "SIGNALBOX_INSECURE_HTTP": "1",
        "SIGNALBOX_LOG_FORMAT": "json",
    }
    assert run_python("manage.py", "migrate", "--verbosity=0", environ=environ).returncode == 0
    log = tmp_path / "log"
    with running_web_process(environ=environ, log=log) as base:
        headers = {"X-Request-ID": "order-7", "Authorization": "Bearer sb-nobodys-key-of-some-length"}
        assert httpx.post(f"{base}/v1/chat/completions", headers=headers, content=b"{}").status_code == 401
        assert httpx.get(f"{base}/v1/sb-nobodys-key-of-some-length", headers=headers).status_code == 404
        assert httpx.get(f"{base}/admin/login/?next=/x", headers=headers).status_code == 200
    lines = [json.loads(each) for each in log.read_text(encoding="utf-8").splitlines()]
    mine = [each for each in lines if each.get("correlation") == "order-7"]
    of_gateway = [each for each in mine if each["logger"] == "governance.gateway.access"]
    assert [(each["message"], each["status"]) for each in of_gateway] == [
        ("POST /v1/chat/completions", 401),
        ("GET (unknown path)", 404),
    ]
    assert all(each["milliseconds"] >= 0 for each in of_gateway)
    assert "uvicorn.error" in {each["logger"] for each in lines}  # the server's own words too
    of_server = [each for each in lines if each["logger"] == "uvicorn.access"]
    assert {each["correlation"] for each in of_server} == {"order-7"}
    pages = [each["message"] for each in of_server]
    assert sum("/admin/login/ " in each for each in pages) == 1
    assert not any("/v1/" in each or "next=" in each for each in pages)
    assert "sb-nobodys" not in log.read_text(encoding="utf-8")


def test_the_level_is_the_servers_too(tmp_path: Path) -> None:
    environ = {
        **installation_environment(data_folder=tmp_path),
        "SIGNALBOX_INSECURE_HTTP": "1",
        "SIGNALBOX_LOG_LEVEL": "WARNING",
    }
    assert run_python("manage.py", "migrate", "--verbosity=0", environ=environ).returncode == 0
    log = tmp_path / "log"
    with running_web_process(environ=environ, log=log) as base:
        assert httpx.get(f"{base}/admin/login/").status_code == 200
        assert httpx.get(f"{base}/v1/models").status_code == 401
    assert "INFO" not in log.read_text(encoding="utf-8")
