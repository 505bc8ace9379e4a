"""The control endpoints under ``/_simulator``: behaviours, counts and the last requests."""

from collections.abc import Callable

import orjson

from governance.demo.simulator.book import BehaviourBook
from governance.demo.simulator.exchange import Exchange
from governance.demo.simulator.problems import RequestProblem, unknown_url, wrong_method
from governance.demo.simulator.records import RequestLog, Statistics
from governance.demo.simulator.requests import read_document
from governance.demo.simulator.shapes import BehaviourError

PREFIX = "/_simulator"

_Endpoint = Callable[[bytes], bytes]


class Control:
    """Reads and changes what the simulator does and has counted; knows nothing of providers' protocols."""

    def __init__(self, *, book: BehaviourBook, statistics: Statistics, log: RequestLog) -> None:
        self._book = book
        self._statistics = statistics
        self._log = log
        self._endpoints: dict[str, dict[str, _Endpoint]] = {
            "/behaviours": {
                "GET": self._read_behaviours,
                "PUT": self._put_behaviours,
                "DELETE": self._restore_behaviours,
            },
            "/stats": {"GET": self._read_statistics, "DELETE": self._reset_statistics},
            "/requests": {"GET": self._read_requests},
        }

    async def handle(self, exchange: Exchange, body: bytes) -> None:
        """Answer one control request; raises ``RequestProblem``."""
        method, path = exchange.scope["method"], exchange.scope["path"]
        methods = self._endpoints.get(path.removeprefix(PREFIX))
        if methods is None:
            raise unknown_url(method, path)
        endpoint = methods.get(method)
        if endpoint is None:
            raise wrong_method(method, path)
        await exchange.respond(200, endpoint(body))

    def _read_behaviours(self, _body: bytes) -> bytes:
        return orjson.dumps(self._book.as_mapping())

    def _put_behaviours(self, body: bytes) -> bytes:
        try:
            self._book.put(read_document(body))
        except BehaviourError as error:
            raise RequestProblem(str(error), param=error.where, code="invalid_behaviour") from error
        return self._read_behaviours(body)

    def _restore_behaviours(self, body: bytes) -> bytes:
        self._book.restore()
        return self._read_behaviours(body)

    def _read_statistics(self, _body: bytes) -> bytes:
        return orjson.dumps(self._statistics.as_mapping())

    def _reset_statistics(self, body: bytes) -> bytes:
        self._statistics.reset()
        return self._read_statistics(body)

    def _read_requests(self, _body: bytes) -> bytes:
        return orjson.dumps(self._log.as_list())
