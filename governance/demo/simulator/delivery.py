"""Sending an answer over the route's latency, and carrying out the failure that was ordered for it.

A count is settled before the last byte goes out, so that a caller who has the whole answer finds it counted.
"""

from dataclasses import dataclass

from governance.demo.simulator.behaviours import Failure, FailureKind
from governance.demo.simulator.book import RouteBehaviour
from governance.demo.simulator.exchange import EVENT_STREAM, JSON, Exchange
from governance.demo.simulator.problems import ordered_body, ordered_headers, ordered_status
from governance.demo.simulator.records import Tally
from governance.demo.simulator.wire import sse

_OK = "ok"
_NOT_JSON = b"<html><body>This simulated answer is not JSON.</body></html>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request under way: where it came from, what holds for it, and the count to settle."""

    exchange: Exchange
    route: RouteBehaviour
    tally: Tally
    provider: str
    model: str
    operation: str


async def suffer(call: Call, failure: Failure, *, stream: bool) -> bool:
    """Carry a failure out, if it replaces the answer; ``False`` for those that only shape it."""
    exchange = call.exchange
    if failure.after_ms:
        await exchange.pause(failure.after_ms / 1000.0)
    status = ordered_status(failure)
    if status is not None:
        call.tally.settle(failure.kind.value)
        await exchange.respond(status, ordered_body(failure), headers=ordered_headers(failure))
    elif failure.kind is FailureKind.TIMEOUT:
        await exchange.wait_for_hang_up()
        call.tally.settle(failure.kind.value, cancelled=True)
    elif failure.kind is FailureKind.RESET:
        call.tally.settle(failure.kind.value)
        await exchange.break_connection(reset=True)
    elif failure.kind in (FailureKind.GARBAGE, FailureKind.EMPTY):
        call.tally.settle(failure.kind.value)
        body = _NOT_JSON if failure.kind is FailureKind.GARBAGE else b""
        if stream:
            await exchange.start(200, content_type=EVENT_STREAM)
            await exchange.send(sse(body) if body else body)
            await exchange.finish()
        else:
            await exchange.respond(200, body)
    else:
        return False
    return True


async def send_whole(call: Call, body: bytes, *, failure: Failure | None) -> None:
    """Send a whole answer after the route's latency, shaped by the failure if there is one."""
    seconds = call.route.behaviour.latency.draw_total(call.route.rng)
    if seconds:
        await call.exchange.pause(seconds)
    call.tally.settle(_OK if failure is None else failure.kind.value)
    if failure is None or failure.kind is FailureKind.NO_USAGE:
        await call.exchange.respond(200, body)
    elif failure.kind is FailureKind.ERROR_FRAME:
        await call.exchange.respond(200, ordered_body(failure))
    elif failure.abrupt:
        await call.exchange.start(200, content_type=JSON, length=len(body))
        await call.exchange.send(body[: len(body) // 2])
        await call.exchange.break_connection(reset=False)
    else:
        await call.exchange.respond(200, body[: len(body) // 2])


async def send_stream(call: Call, frames: list[bytes], *, failure: Failure | None) -> None:
    """Send a stream over the route's latency, cut or broken off by the failure if there is one."""
    latency, rng = call.route.behaviour.latency, call.route.rng
    total = latency.draw_total(rng)
    first = latency.draw_first_chunk(total, rng)
    gap = max(0.0, total - first) / max(1, len(frames) - 1)
    if failure is not None and failure.kind is not FailureKind.NO_USAGE:
        frames = frames[: min(failure.after_chunks, len(frames) - 1)]
        if failure.kind is FailureKind.ERROR_FRAME:
            frames.append(sse(ordered_body(failure)))
    outcome = _OK if failure is None else failure.kind.value
    exchange, last = call.exchange, len(frames) - 1
    await exchange.pause(first)
    await exchange.start(200, content_type=EVENT_STREAM)
    for number, frame in enumerate(frames):
        if number:
            await exchange.pause(gap)
        if number == last:
            call.tally.settle(outcome)
        await exchange.send(frame)
    call.tally.settle(outcome)
    if failure is not None and failure.abrupt:
        await exchange.break_connection(reset=False)
    else:
        await exchange.finish()
