"""Database connections of the pages that Django's own ASGI handler answers: closed when the page is done.

That handler gives every request a thread and a context of its own, and Django keeps connections by context,
so a persistent connection is never found again: it stays open until the garbage collector comes by. Forty
requests at a time left up to 86 connections open on PostgreSQL, whose default limit is 100. Closing costs a
page some milliseconds. Everything with threads of its own (the gateway's executor, workers) keeps its
persistent connections: they send no `request_finished`.
"""

from django.core.signals import request_finished
from django.db import connections


def close_connections_with_the_page() -> None:
    """From here on; for the web process, whose `asgi` module calls it."""
    request_finished.connect(_close, dispatch_uid="close_connections_with_the_page")


def _close(**_: object) -> None:
    for connection in connections.all(initialized_only=True):
        # A test's transaction around an in-process request is the one case of a block that is still open.
        if not connection.in_atomic_block:
            connection.close()
