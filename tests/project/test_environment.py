"""Variables are read for what they are, and refused with the variable's name, the problem and the remedy,
and never with a secret."""

import base64
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governance.project.settings import environment as env
from governance.project.settings.environment import EnvironmentProblem

KEY_ONE = base64.b64encode(bytes(range(32))).decode()
KEY_TWO = base64.b64encode(bytes(range(100, 132))).decode()
WORDS = st.text(alphabet=st.characters(categories=["L", "N", "P", "S"]), min_size=6, max_size=30)


@pytest.mark.parametrize(
    ("written", "read"),
    [("1", True), ("yes", True), ("TRUE", True), (" on ", True), ("0", False), ("No", False), ("off", False)],
)
def test_a_switch_is_read(written: str, read: bool) -> None:
    assert env.envbool("SWITCH", default=not read, environ={"SWITCH": written}) is read


@pytest.mark.parametrize("default", [True, False])
@pytest.mark.parametrize("environ", [{}, {"SWITCH": ""}, {"SWITCH": "  "}])
def test_an_empty_value_counts_as_not_set(default: bool, environ: dict[str, str]) -> None:
    assert env.envbool("SWITCH", default=default, environ=environ) is default


def test_a_switch_that_is_neither_is_refused() -> None:
    with pytest.raises(EnvironmentProblem, match=r"^SWITCH is 'maybe', which is neither .*\. Use one of 1, true"):
        env.envbool("SWITCH", default=False, environ={"SWITCH": "maybe"})


def test_a_number_is_read_with_its_bounds_included() -> None:
    assert env.envint("N", default=1, environ={"N": "-3"}) == -3
    assert env.envint("N", default=1, minimum=5, maximum=7, environ={"N": "5"}) == 5
    assert env.envint("N", default=1, minimum=5, maximum=7, environ={"N": "7"}) == 7
    assert env.envint("N", default=1, minimum=5, environ={}) == 1


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("4", "less than 5"),
        ("8", "more than 7"),
        ("1e3", "not a whole"),
        ("٣", "not a whole"),
        ("9" * 5000, "not a"),
    ],
)
def test_a_number_that_cannot_be_used_is_refused(written: str, told: str) -> None:
    with pytest.raises(EnvironmentProblem, match=f"^N is .*{told}"):
        env.envint("N", default=5, minimum=5, maximum=7, environ={"N": written})


def test_a_choice_is_read_without_regard_to_case() -> None:
    assert env.envchoice("LEVEL", default="INFO", choices=("INFO", "DEBUG"), environ={"LEVEL": "debug"}) == "DEBUG"
    assert env.envchoice("LEVEL", default="INFO", choices=("INFO", "DEBUG"), environ={}) == "INFO"
    with pytest.raises(EnvironmentProblem, match=r"^LEVEL is 'loud'.* Use one of INFO, DEBUG\."):
        env.envchoice("LEVEL", default="INFO", choices=("INFO", "DEBUG"), environ={"LEVEL": "loud"})


def test_a_list_is_read_without_its_empty_entries() -> None:
    assert env.envlist("HOSTS", environ={"HOSTS": " a , b,,c, "}) == ("a", "b", "c")
    assert env.envlist("HOSTS", default=("x",), environ={"HOSTS": ""}) == ("x",)


def test_a_path_must_be_absolute() -> None:
    assert env.envpath("FOLDER", default=Path("/d"), environ={"FOLDER": "/srv/data"}) == Path("/srv/data")
    with pytest.raises(EnvironmentProblem, match=r"^FOLDER is 'data', which is a relative path"):
        env.envpath("FOLDER", default=Path("/d"), environ={"FOLDER": "data"})


# --- Secrets
# --------------------------------------------------------------------------------------------------


def test_a_secret_comes_from_the_variable_or_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("from the file\n", encoding="utf-8")
    assert env.envsecret("S", environ={"S": "from the variable"}) == "from the variable"
    assert env.envsecret("S", environ={"S_FILE": str(file)}) == "from the file"
    assert env.envsecret("S", environ={"S": "", "S_FILE": str(file)}) == "from the file"
    assert env.envsecret("S", environ={}) is None


def test_a_secret_in_both_places_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match=r"^S is set, and S_FILE is set too\. Keep one") as caught:
        env.envsecret("S", environ={"S": "hush-hush", "S_FILE": str(tmp_path)})
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "told"), [(None, "cannot be read"), (b" \n", "an empty file"), (b"\xff\xfe\x00", "not UTF-8")]
)
def test_a_file_that_gives_no_secret_is_refused(tmp_path: Path, content: bytes | None, told: str) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(EnvironmentProblem, match=f"^S_FILE names .*{told}"):
        env.envsecret("S", environ={"S_FILE": str(file)})


def test_the_signing_key_is_required_and_long() -> None:
    with pytest.raises(EnvironmentProblem, match=r"^K is not set.*Make one with: python3 -c .*token_urlsafe"):
        env.envsecretkey("K", environ={})
    with pytest.raises(EnvironmentProblem, match=r"^K is too easily guessed \(9 characters; 50"):
        env.envsecretkey("K", environ={"K": "too-short"})
    with pytest.raises(EnvironmentProblem, match="too easily guessed"):
        env.envsecretkey("K", environ={"K": "abcd" * 20})
    with pytest.raises(EnvironmentProblem, match=r"\(49 characters"):
        env.envsecretkey("K", environ={"K": ("abcdefghij" * 5)[1:]})
    assert env.envsecretkey("K", environ={"K": "abcdefghij" * 5}) == "abcdefghij" * 5


def test_the_key_ring_keeps_its_order() -> None:
    ring = env.envkeyring("RING", environ={"RING": f"new:{KEY_TWO}, old:{KEY_ONE},"})
    assert ring == (("new", bytes(range(100, 132))), ("old", bytes(range(32))))


def test_the_key_ring_may_stand_on_lines_and_in_the_other_alphabet(tmp_path: Path) -> None:
    high = bytes([255, 254] * 16)
    file = tmp_path / "ring"
    file.write_text(f"a:{base64.urlsafe_b64encode(high).decode()}\nb:{KEY_ONE}\n", encoding="utf-8")
    assert env.envkeyring("RING", environ={"RING_FILE": str(file)}) == (("a", high), ("b", bytes(range(32))))


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (KEY_ONE, "position 1: no id"),
        (f"k1:{KEY_ONE},:{KEY_TWO}", "position 2: no id"),
        (f"a.b:{KEY_ONE}", "position 1: no id"),
        (f"k1:{KEY_ONE},k1:{KEY_TWO}", "position 2: its id is used twice"),
        ("k1:not*base64", "position 1: what follows the id is not base64"),
        (f"k1:{KEY_ONE[:-4]}", "bytes instead of 32"),
        ("k1:", "0 bytes instead of 32"),
    ],
)
def test_a_key_ring_that_cannot_be_used_is_refused(written: str, told: str) -> None:
    with pytest.raises(EnvironmentProblem, match=rf"^RING .*{re.escape(told)}") as caught:
        env.envkeyring("RING", environ={"RING": written})
    assert KEY_ONE[:8] not in str(caught.value)
    assert KEY_TWO[:8] not in str(caught.value)


def test_a_missing_key_ring_says_how_to_make_one() -> None:
    with pytest.raises(EnvironmentProblem, match=r"^RING is not set.*Make a key with: python3 -c .*token_bytes\(32\)"):
        env.envkeyring("RING", environ={})


# --- Addresses and URLs
# ---------------------------------------------------------------------------------------


def test_addresses_are_read() -> None:
    read = env.envaddresses("ALLOW", environ={"ALLOW": "LocalHost:11434,[::1]:8080,10.0.0.7:443"})
    assert read == (("localhost", 11434), ("::1", 8080), ("10.0.0.7", 443))
    assert env.envaddresses("ALLOW", environ={}) == ()


@pytest.mark.parametrize(
    "entry",
    [
        "localhost",
        "http://localhost:1",
        "localhost:0",
        "localhost:65536",
        "::1:80",
        ":80",
        "[x]:80",
        "h:80/p",
    ],
)
def test_an_address_that_is_not_one_is_refused(entry: str) -> None:
    with pytest.raises(EnvironmentProblem, match=rf"^ALLOW has the entry '{re.escape(entry)}', which is not host:port"):
        env.envaddresses("ALLOW", environ={"ALLOW": f"good:80,{entry}"})


def test_a_database_url_is_taken_apart() -> None:
    read = env.envpostgresql(
        "DB",
        environ={"DB": "postgres://us%40er:p%2Fw%3Fd@[::1]:5433/sign%20box?sslmode=require&connect_timeout=3"},
    )
    assert read == env.PostgresqlUrl(
        host="::1",
        port=5433,
        name="sign box",
        user="us@er",
        password="p/w?d",
        parameters=(("sslmode", "require"), ("connect_timeout", "3")),
    )
    assert "p/w?d" not in repr(read)


def test_what_a_database_url_leaves_out_is_absent() -> None:
    read = env.envpostgresql("DB", environ={"DB": "postgresql://db.internal/box"})
    assert read == env.PostgresqlUrl(host="db.internal", port=None, name="box", user="", password="", parameters=())
    assert env.envpostgresql("DB", environ={}) is None


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:hushhush@h/db",
        "u:hushhush@h/db",
        "postgresql://u:hush/hush@h:5432/db",
        "postgresql://u:hush#hush@h/db",
        "postgresql://u:hush?hush@h/db",
        "postgresql://u:hushhush@h",
        "postgresql://u:hushhush@/db",
        "postgresql://u:hushhush@h:hush/db",
        "postgresql://u:hush[hush@h/db",
        "postgresql://u:hushhush@h/db?password=hush",
    ],
)
def test_a_database_url_that_cannot_be_used_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(EnvironmentProblem, match=r"^DB ") as caught:
        env.envpostgresql("DB", environ={"DB": url})
    assert "hush" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_redis_url_is_returned_as_it_is() -> None:
    for url in ("redis://:p@h:6379/0", "rediss://h", "unix:///run/redis.sock?db=1"):
        assert env.envredis("CACHE", environ={"CACHE": url}) == url
    assert env.envredis("CACHE", environ={}) is None


@pytest.mark.parametrize("url", ["h:6379", "http://:hush@h", "redis://", "redis://:hush@h:hush/0", "unix://"])
def test_a_redis_url_that_cannot_be_used_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(EnvironmentProblem, match=r"^CACHE ") as caught:
        env.envredis("CACHE", environ={"CACHE": url})
    assert "hush" not in str(caught.value)


READERS: list[Callable[..., object]] = [env.envsecretkey, env.envkeyring, env.envpostgresql, env.envredis]


def refusal(*, reader: Callable[..., object], value: str) -> str | None:
    """What the reader says against the value, or `None` where it accepts it."""
    try:
        reader("VARIABLE", environ={"VARIABLE": value})
    except EnvironmentProblem as problem:
        return str(problem)
    return None


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
@given(secret=WORDS)
def test_no_refusal_repeats_a_secret(reader: Callable[..., object], secret: str) -> None:
    """Distinct enough from our own sentences: the secret is wrapped in a character that none of them has."""
    guarded = f"\u00a4{secret}\u00a4"
    for value in (guarded, f"postgresql://{guarded}", f"redis://{guarded}:{guarded}", f"k1:{guarded}"):
        told = refusal(reader=reader, value=value)
        assert told is None or (told.startswith("VARIABLE ") and "\u00a4" not in told)
