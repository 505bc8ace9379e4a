"""Signatures after the convention of Standard Webhooks, and secrets that only the vault opens."""

import base64
import hashlib
import hmac

import pytest

from governance.alerts.signing import (
    SecretProblem,
    check_secret,
    make_secret,
    read_secret,
    reseal_secret,
    sign,
    store_secret,
)
from governance.models import Webhook
from routing.vault import Vault, VaultError
from tests.governance.alerts.rows import SECRET, VAULT

MESSAGE = "0192f1a0-0000-7000-8000-00000000000a"
BODY = b'{"type":"test"}'


def test_a_signature_is_that_of_the_convention() -> None:
    """Over id, time and body, joined by dots, with the key that the secret spells in base64."""
    headers = sign(SECRET, message=MESSAGE, timestamp=1_764_504_000, body=BODY)
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    signed = b"0192f1a0-0000-7000-8000-00000000000a.1764504000." + BODY
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers == {
        "webhook-id": "0192f1a0-0000-7000-8000-00000000000a",
        "webhook-timestamp": "1764504000",
        "webhook-signature": f"v1,{expected}",
    }


def test_the_example_that_libraries_of_the_convention_are_tested_with() -> None:
    headers = sign(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        message="msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp=1_614_265_330,
        body=b'{"test": 2432232314}',
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("change", [{"timestamp": 2}, {"body": b"{}"}, {"message": "another"}])
def test_whatever_is_changed_has_another_signature(change: dict[str, object]) -> None:
    arguments: dict[str, object] = {"message": MESSAGE, "timestamp": 1, "body": BODY}
    first = sign(SECRET, **arguments)["webhook-signature"]  # type: ignore[arg-type]
    assert sign(SECRET, **{**arguments, **change})["webhook-signature"] != first  # type: ignore[arg-type]


def test_made_secrets_are_secrets_and_no_two_are_alike() -> None:
    made = {make_secret() for _ in range(20)}
    assert len(made) == 20
    for secret in made:
        check_secret(secret)


@pytest.mark.parametrize(
    "wrong",
    ["", "whsec_", "whsec_c2hvcnQ=", SECRET.removeprefix("whsec_"), "whsec_%%%", "whsec_" + "QUFB" * 30, "whsec_äöü"],
)
def test_what_is_no_secret_is_refused_and_not_repeated(wrong: str) -> None:
    with pytest.raises(SecretProblem) as refused:
        check_secret(wrong)
    assert not wrong or wrong == "whsec_" or wrong not in str(refused.value)


def test_a_secret_is_sealed_for_its_row() -> None:
    webhook, other = Webhook(identifier="pager"), Webhook(identifier="wall")
    with pytest.raises(VaultError, match="pager has no secret"):
        read_secret(webhook, vault=VAULT)
    store_secret(webhook, SECRET, vault=VAULT)
    assert SECRET.encode() not in bytes(webhook.sealed_secret or b"")
    assert (read_secret(webhook, vault=VAULT), webhook.secret_hint) == (SECRET, SECRET[-4:])
    other.sealed_secret = webhook.sealed_secret
    with pytest.raises(VaultError):
        read_secret(other, vault=VAULT)


def test_a_secret_of_an_older_key_is_sealed_again() -> None:
    webhook, ring = Webhook(identifier="pager"), Vault([("k2", b"2" * 32), ("k1", bytes(32))])
    assert not reseal_secret(webhook, vault=VAULT)
    store_secret(webhook, SECRET, vault=VAULT)
    assert not reseal_secret(webhook, vault=VAULT)
    assert reseal_secret(webhook, vault=ring)
    assert read_secret(webhook, vault=Vault([("k2", b"2" * 32)])) == SECRET
