"""Going over all sealed rows when the ring of encryption keys has a newer one."""

from collections.abc import Callable, Iterable, Iterator

from routing.vault import VaultError


def reseal_each(rows: Iterable[tuple[int, str]], reseal: Callable[[int], bool], *, what: str) -> Iterator[str]:
    """Seal each row's secret again where that is needed; yields the identifiers of those that were changed.

    Each row is a transaction of its own, so that it may be interrupted and run again. A secret that does not open is
    left as it is and keeps no other from being sealed again.

    Args:
        rows: ids and identifiers.
        reseal: seals the secret of an id again; tells whether that was needed.
        what: the secrets in the plural, for the message.

    Raises:
        VaultError: after the last row, if secrets did not open; it names the rows.
    """
    broken: list[str] = []
    for pk, identifier in rows:
        try:
            changed = reseal(pk)
        except VaultError as error:
            broken.append(f"{identifier} ({error})")
            continue
        if changed:
            yield identifier
    if broken:
        raise VaultError(f"these {what} do not open and were left as they are: {'; '.join(broken)}")
