"""A sealed secret opens in its own place, under a key of the ring, unchanged; and nowhere else."""

import pickle
import secrets
import traceback
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.vault import Place, Vault, VaultError

PLACE = Place(model="provider", uuid="0b0e5a0e-6d1c-4f0c-9f5e-9d0f5b7f2c11", field="key")
OLD = ("k1", secrets.token_bytes(32))
NEW = ("k2", secrets.token_bytes(32))
SECRET = "sk-4f9a-very-secret-indeed"
VAULT = Vault([OLD])

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


@given(secret=texts)
def test_what_was_sealed_opens_again(secret: str) -> None:
    assert VAULT.open(VAULT.seal(secret, place=PLACE), place=PLACE) == secret


@given(secret=texts)
def test_sealing_twice_gives_two_texts_and_neither_holds_the_secret(secret: str) -> None:
    one, other = VAULT.seal(secret, place=PLACE), VAULT.seal(secret, place=PLACE)
    assert one != other
    if len(secret) > 3:
        assert secret.encode() not in one


@pytest.mark.parametrize(
    "elsewhere",
    [
        replace(PLACE, uuid="0b0e5a0e-6d1c-4f0c-9f5e-9d0f5b7f2c12"),
        replace(PLACE, field="secret"),
        replace(PLACE, model="webhook"),
    ],
    ids=["another row", "another field", "another model"],
)
def test_a_secret_that_was_moved_does_not_open(elsewhere: Place) -> None:
    sealed = VAULT.seal(SECRET, place=PLACE)
    with pytest.raises(VaultError, match="does not open"):
        VAULT.open(sealed, place=elsewhere)


@given(position=st.integers(min_value=0), flip=st.integers(min_value=1, max_value=255))
def test_one_changed_byte_is_enough(position: int, flip: int) -> None:
    sealed = bytearray(VAULT.seal(SECRET, place=PLACE))
    sealed[position % len(sealed)] ^= flip
    with pytest.raises(VaultError):
        VAULT.open(bytes(sealed), place=PLACE)


@given(st.binary(max_size=80))
def test_what_was_never_sealed_does_not_open(garbage: bytes) -> None:
    with pytest.raises(VaultError):
        VAULT.open(garbage, place=PLACE)


@given(length=st.integers(min_value=0, max_value=200))
def test_a_part_of_a_sealed_secret_does_not_open(length: int) -> None:
    sealed = VAULT.seal(SECRET, place=PLACE)
    with pytest.raises(VaultError):
        VAULT.open(sealed[: min(length, len(sealed) - 1)], place=PLACE)


def test_the_first_key_seals_and_all_of_them_open() -> None:
    sealed = VAULT.seal(SECRET, place=PLACE)
    both = Vault([NEW, OLD])
    assert both.current_key == "k2"
    assert both.open(sealed, place=PLACE) == SECRET
    assert both.sealed_by(sealed) == "k1"
    again = both.seal(SECRET, place=PLACE)
    assert both.sealed_by(again) == "k2"
    assert Vault([NEW]).open(again, place=PLACE) == SECRET


def test_a_key_that_is_not_in_the_ring_is_named() -> None:
    sealed = VAULT.seal(SECRET, place=PLACE)
    with pytest.raises(VaultError, match=r"'k1', which is not in SIGNALBOX_ENCRYPTION_KEYS"):
        Vault([NEW]).open(sealed, place=PLACE)


def test_an_id_that_was_given_to_another_key_is_no_way_in() -> None:
    sealed = VAULT.seal(SECRET, place=PLACE)
    with pytest.raises(VaultError, match="does not open with the key 'k1'"):
        Vault([("k1", NEW[1])]).open(sealed, place=PLACE)


@pytest.mark.parametrize(
    ("ring", "complaint"),
    [
        ([], "empty"),
        ([OLD, ("k1", NEW[1])], "same id"),
        ([("k1", b"short")], "5 bytes instead of 32"),
        ([("k1", bytes(16))], "16 bytes instead of 32"),
        ([("schlüssel", NEW[1])], "no id of a key"),
        ([("", NEW[1])], "no id of a key"),
        ([("k" * 256, NEW[1])], "no id of a key"),
    ],
)
def test_a_ring_that_cannot_be_used_is_refused(ring: list[tuple[str, bytes]], complaint: str) -> None:
    with pytest.raises(VaultError, match=complaint):
        Vault(ring)


def everything_said(error: BaseException) -> str:
    chain = "".join(traceback.format_exception(error))
    return f"{chain} {error!r} {error.args!r} {error.__cause__!r}"


def test_a_text_that_cannot_be_written_is_refused_without_repeating_it() -> None:
    with pytest.raises(VaultError) as refused:
        VAULT.seal(f"{SECRET}\ud800", place=PLACE)
    assert SECRET not in everything_said(refused.value)
    assert refused.value.__context__ is None


def test_nothing_shows_a_key_or_a_secret() -> None:
    vault = Vault([NEW, OLD])
    assert repr(vault) == "Vault(k2, k1)"
    material = (NEW[1], OLD[1])
    for text in (repr(vault), str(vault), repr(vars(vault))):
        for key in material:
            assert key.hex() not in text
            assert repr(key) not in text
    sealed = vault.seal(SECRET, place=PLACE)
    for place, opener in ((replace(PLACE, field="other"), vault), (PLACE, Vault([("k3", NEW[1])]))):
        with pytest.raises(VaultError) as refused:
            opener.open(sealed, place=place)
        said = everything_said(refused.value)
        assert SECRET not in said
        for key in material:
            assert repr(key) not in said
            assert key.hex() not in said


def test_a_vault_cannot_be_written_to_a_file_by_mistake() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(VAULT)
