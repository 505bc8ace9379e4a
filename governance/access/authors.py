"""Who makes a change, as the audit trail is told."""

from django.http import HttpRequest

from governance.audit.actions import Author, Channel


def author_of(request: HttpRequest) -> Author:
    """Who sends a request to one of the admin's pages, and from where."""
    return Author(
        name=request.user.get_username(),
        channel=Channel.ADMIN,
        address=request.META.get("REMOTE_ADDR", "") or "",
        correlation=request.META.get("signalbox.correlation", ""),
    )
