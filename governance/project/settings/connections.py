"""How servers are connected to, and how long a connection is believed in that nobody answers.

A machine that loses its power, or whose network is cut, says nothing. By the defaults of Linux a statement under way
would wait a quarter of an hour for it, and one that only listens two hours, on our side and on the server's: what a
machine of ours had locked when it went would stay locked for as long. See record 0106.
"""

from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode, urlsplit

SECONDS_TO_CONNECT = 5
SECONDS_UNANSWERED = 20
"""Without a sign from the other side's kernel, however busy the program behind it is."""

SECONDS_QUIET = 10
"""Before a connection on which nothing is said is asked for a sign."""

SECONDS_BETWEEN_SIGNS = 5
SECONDS_IN_TRANSACTION = 60
"""How long a transaction may say nothing before the server ends it: a process may stop without its machine."""

_SIGNS = (SECONDS_UNANSWERED - SECONDS_QUIET) // SECONDS_BETWEEN_SIGNS

POSTGRESQL: Mapping[str, str] = {
    "connect_timeout": str(SECONDS_TO_CONNECT),
    "keepalives_idle": str(SECONDS_QUIET),
    "keepalives_interval": str(SECONDS_BETWEEN_SIGNS),
    "keepalives_count": str(_SIGNS),
    "tcp_user_timeout": str(SECONDS_UNANSWERED * 1000),
    "options": " ".join(
        f"-c {name}={value}"
        for name, value in (
            ("tcp_keepalives_idle", SECONDS_QUIET),
            ("tcp_keepalives_interval", SECONDS_BETWEEN_SIGNS),
            ("tcp_keepalives_count", _SIGNS),
            ("tcp_user_timeout", SECONDS_UNANSWERED * 1000),
            ("idle_in_transaction_session_timeout", SECONDS_IN_TRANSACTION * 1000),
        )
    ),
}
"""Parameters of libpq for our side, and ``options`` for the server's. In ``DATABASE_URL`` each can be set otherwise."""


def celery_url(redis_url: str) -> str:
    """The same server in Celery's words, which has others for a socket and the number of a database there."""
    parts = urlsplit(redis_url)
    if parts.scheme != "unix":
        return redis_url
    names = {"db": "virtual_host"}
    query = urlencode([(names.get(name, name), value) for name, value in parse_qsl(parts.query)])
    return f"redis+socket://{parts.netloc}{parts.path}" + (f"?{query}" if query else "")
