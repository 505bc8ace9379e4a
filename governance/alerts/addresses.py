"""Where webhooks post to. What follows the question mark of an address is often what proves who may post: it is sealed,
and everything that is shown, listed, kept as a revision or logged has the address up to its path alone.

A sealed query is bound to the address that it was entered with, and opens for no other: whoever leads a webhook
elsewhere does not lead its query there.
"""

import re

from governance.models import Webhook
from routing.vault import Place, Vault

LONGEST_QUERY = 1000
LONGEST_ADDRESS = 500 + 1 + LONGEST_QUERY

_QUERY = re.compile(r"[!-~]*")  # what can stand in a request line as it is


class AddressProblem(ValueError):
    """A text that is no query; the sentence repeats nothing of it."""


def split_address(address: str) -> tuple[str, str | None]:
    """What somebody has entered as an address up to its path, and the query behind it: ``None`` if there is no question
    mark, empty if nothing follows it.

    Raises:
        AddressProblem: what follows it is no query.
    """
    place, mark, query = address.strip().partition("?")
    if "#" in query or len(query) > LONGEST_QUERY or not _QUERY.fullmatch(query):
        raise AddressProblem(
            f"What follows the question mark has at most {LONGEST_QUERY} characters, no number sign and no space among "
            "them: write those as % and two digits."
        )
    return place, query if mark else None


def store_query(webhook: Webhook, query: str | None, *, vault: Vault) -> None:
    """Seal a query into an unsaved change of the webhook; an empty one, and none with another address than before,
    lets the stored one be forgotten."""
    if query is None and webhook.has_query:
        return
    webhook.query_of = webhook.url if query else ""
    webhook.sealed_query = vault.seal(query, place=_place(webhook)) if query else None


def read_query(webhook: Webhook, *, vault: Vault) -> str:
    """What follows the question mark of the webhook's address; empty if nothing does.

    Raises:
        VaultError: it does not open.
    """
    if webhook.sealed_query is None or not webhook.has_query:
        return ""
    return vault.open(bytes(webhook.sealed_query), place=_place(webhook))


def reseal_query(webhook: Webhook, *, vault: Vault) -> bool:
    """Seal a query again, into an unsaved change, if an older key of the ring sealed it; tells whether one did.

    Raises:
        VaultError: it does not open.
    """
    resealed = vault.reseal(webhook.sealed_query, place=_place(webhook))
    if resealed is not None:
        webhook.sealed_query = resealed
    return resealed is not None


def _place(webhook: Webhook) -> Place:
    return Place(model="webhook", uuid=str(webhook.uuid), field=f"query of {webhook.query_of}")
