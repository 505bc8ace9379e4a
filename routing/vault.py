"""Secrets at rest: AES-256-GCM under a ring of keys, bound to the place they are stored in.

A sealed secret is bytes: format, the id of the key that sealed it, a nonce, the ciphertext. What it belongs to
(``model:uuid:field``) is authenticated with it, so that a sealed secret moved to another row does not open. The
first key of the ring seals and all of them open. Nothing is swallowed: what does not open says why.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_FORMAT = 1
_NONCE_BYTES = 12
_KEY_BYTES = 32
_LONGEST_ID = 255  # its length is written in one byte


class VaultError(Exception):
    """A secret that cannot be sealed or opened. The message never contains any of it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a secret belongs."""

    model: str
    uuid: str
    field: str

    @property
    def associated_data(self) -> bytes:
        """The text that is authenticated with the secret."""
        return f"{self.model}:{self.uuid}:{self.field}".encode()


class Vault:
    """A key ring as ``(id, 32 bytes)`` pairs: the first seals, all open."""

    def __init__(self, ring: Sequence[tuple[str, bytes]]) -> None:
        if not ring:
            raise VaultError("the key ring is empty; set SIGNALBOX_ENCRYPTION_KEYS")
        for key_id, material in ring:
            if not key_id.isascii() or not 0 < len(key_id) <= _LONGEST_ID:
                raise VaultError(f"{key_id!r} is no id of a key: 1 to {_LONGEST_ID} ASCII characters are needed")
            if len(material) != _KEY_BYTES:
                raise VaultError(f"the key {key_id!r} has {len(material)} bytes instead of {_KEY_BYTES}")
        if len({key_id for key_id, _ in ring}) != len(ring):
            raise VaultError("two keys of the ring have the same id")
        self._ciphers = {key_id: AESGCM(material) for key_id, material in ring}
        self._current = ring[0][0]

    def __repr__(self) -> str:
        return f"Vault({', '.join(self._ciphers)})"

    @property
    def current_key(self) -> str:
        """The id of the key that seals."""
        return self._current

    def seal(self, secret: str, *, place: Place) -> bytes:
        """Seal a text for one place.

        Raises:
            VaultError: it has characters that no text can be written with (lone surrogates).
        """
        key_id = self._current.encode("ascii")
        header = bytes((_FORMAT, len(key_id))) + key_id
        nonce = os.urandom(_NONCE_BYTES)
        try:
            content = secret.encode()
        except UnicodeEncodeError:
            content = None  # raised below, outside of the error that carries the secret
        if content is None:
            raise VaultError(f"{place.model} {place.uuid}: {place.field} is no text that can be written")
        sealed = self._ciphers[self._current].encrypt(nonce, content, header + place.associated_data)
        return header + nonce + sealed

    def open(self, sealed: bytes, *, place: Place) -> str:
        """Open what was sealed for this place.

        Raises:
            VaultError: its key is not in the ring, it belongs elsewhere, or it was changed.
        """
        key_id, body = self._split(sealed)
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise VaultError(
                f"{place.model} {place.uuid}: {place.field} was sealed with the key {key_id!r}, which is not in "
                "SIGNALBOX_ENCRYPTION_KEYS; add that key at the end of the ring"
            )
        header = sealed[: len(sealed) - len(body)]
        try:
            opened = cipher.decrypt(body[:_NONCE_BYTES], body[_NONCE_BYTES:], header + place.associated_data)
        except InvalidTag:
            raise VaultError(
                f"{place.model} {place.uuid}: {place.field} does not open with the key {key_id!r}; "
                "it was changed, belongs to another record, or the key's bytes differ"
            ) from None
        return opened.decode()

    def reseal(self, stored: bytes | memoryview | None, *, place: Place) -> bytes | None:
        """The same as the ring's first key seals it; ``None`` if that key has sealed it already, or nothing is sealed.

        Raises:
            VaultError: it does not open.
        """
        sealed = None if stored is None else bytes(stored)
        if sealed is None or self.sealed_by(sealed) == self._current:
            return None
        return self.seal(self.open(sealed, place=place), place=place)

    def sealed_by(self, sealed: bytes) -> str:
        """The id of the key that sealed something.

        Raises:
            VaultError: this is nothing sealed.
        """
        return self._split(sealed)[0]

    def _split(self, sealed: bytes) -> tuple[str, bytes]:
        if len(sealed) < 2 or sealed[0] != _FORMAT or len(sealed) < 2 + sealed[1] + _NONCE_BYTES:
            raise VaultError("this is no sealed secret of a format that this version reads")
        end = 2 + sealed[1]
        return sealed[2:end].decode("ascii", "replace"), sealed[end:]
