"""Reading environment variables: one function a shape, and one way to refuse.

Every refusal is an `EnvironmentProblem` that names the variable, says what is wrong with its value, and how
to put it right. A value that may be a secret (keys, URLs with passwords, files holding either) is never
repeated in the message, nor kept in the chain of causes.

An empty value counts as not set: compose files and unit files pass unset variables through as empty ones.

Not here: which variables exist and what they default to (`installation` says that). `docs/check.py` reads
the names from the calls, so a name must be written as a literal.
"""

import base64
import binascii
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"0", "false", "no", "off"})

KEY_BYTES = 32
HOW_TO_MAKE_A_SECRET_KEY = 'python3 -c "import secrets; print(secrets.token_urlsafe(64))"'  # noqa: S105 (a command, not a key)
HOW_TO_MAKE_AN_ENCRYPTION_KEY = (
    "python3 -c \"import base64, secrets; print('k1:' + base64.b64encode(secrets.token_bytes(32)).decode())\""
)

# What may follow the question mark of a PostgreSQL URL: libpq parameters an operator has a reason to set.
POSTGRESQL_PARAMETERS = frozenset(
    {
        "application_name",
        "channel_binding",
        "connect_timeout",
        "gssencmode",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "options",
        "sslcert",
        "sslkey",
        "sslmode",
        "sslrootcert",
        "target_session_attrs",
        "tcp_user_timeout",
    }
)


class EnvironmentProblem(ImproperlyConfigured):
    """A variable is missing or unusable; the message is meant for the operator."""

    def __init__(self, *, name: str, problem: str, remedy: str) -> None:
        self.name = name
        super().__init__(f"{name} {problem}. {remedy}")


@dataclass(frozen=True, slots=True)
class PostgresqlUrl:
    """A PostgreSQL URL taken apart; `port` is `None` where the URL names none."""

    host: str
    port: int | None
    name: str
    user: str
    password: str = field(repr=False)
    parameters: tuple[tuple[str, str], ...]


def envtext(name: str, *, default: str | None = None, environ: Mapping[str, str] = os.environ) -> str | None:
    """The value without surrounding white space, or `default` where it is not set."""
    return environ.get(name, "").strip() or default


def envbool(name: str, *, default: bool, environ: Mapping[str, str] = os.environ) -> bool:
    """True or False, written in one of the eight usual words."""
    value = envtext(name, environ=environ)
    if value is None:
        return default
    if value.lower() in TRUE:
        return True
    if value.lower() in FALSE:
        return False
    raise EnvironmentProblem(
        name=name,
        problem=f"is {value!r}, which is neither yes nor no",
        remedy="Use one of 1, true, yes, on, or 0, false, no, off.",
    )


def envint(
    name: str,
    *,
    default: int,
    minimum: int | None = None,
    maximum: int | None = None,
    environ: Mapping[str, str] = os.environ,
) -> int:
    """A whole number within its bounds, both included."""
    value = envtext(name, environ=environ)
    if value is None:
        return default
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", value):
        raise EnvironmentProblem(
            name=name,
            problem=f"is {value!r}, which is not a whole number",
            remedy="Write it in digits, as in 3600.",
        )
    number = int(value)
    if minimum is not None and number < minimum:
        raise EnvironmentProblem(
            name=name, problem=f"is {number}, less than {minimum}", remedy=f"Use {minimum} or more."
        )
    if maximum is not None and number > maximum:
        raise EnvironmentProblem(
            name=name, problem=f"is {number}, more than {maximum}", remedy=f"Use {maximum} or less."
        )
    return number


def envchoice(name: str, *, default: str, choices: tuple[str, ...], environ: Mapping[str, str] = os.environ) -> str:
    """One of `choices`, compared without regard to case and returned as written there."""
    value = envtext(name, environ=environ)
    if value is None:
        return default
    for choice in choices:
        if value.casefold() == choice.casefold():
            return choice
    raise EnvironmentProblem(
        name=name,
        problem=f"is {value!r}, which is not one of its values",
        remedy=f"Use one of {', '.join(choices)}.",
    )


def envlist(name: str, *, default: tuple[str, ...] = (), environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """A comma-separated list; empty entries, as after a last comma, are left out."""
    value = envtext(name, environ=environ)
    if value is None:
        return default
    return tuple(entry.strip() for entry in value.split(",") if entry.strip())


def envpath(name: str, *, default: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """An absolute path: a relative one would mean another folder for every process started elsewhere."""
    value = envtext(name, environ=environ)
    if value is None:
        return default
    path = Path(value)
    if not path.is_absolute():
        raise EnvironmentProblem(
            name=name,
            problem=f"is {value!r}, which is a relative path",
            remedy="Write the path from the root on.",
        )
    return path


def envsecret(name: str, *, environ: Mapping[str, str] = os.environ) -> str | None:
    """A secret, from the variable itself or from the file that `<name>_FILE` points at; never both."""
    file_variable = f"{name}_FILE"
    value = envtext(name, environ=environ)
    file_name = envtext(file_variable, environ=environ)
    if file_name is None:
        return value
    if value is not None:
        raise EnvironmentProblem(
            name=name, problem=f"is set, and {file_variable} is set too", remedy="Keep one of the two."
        )
    try:
        content = Path(file_name).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise EnvironmentProblem(
            name=file_variable,
            problem=f"names a file that cannot be read ({error.strerror})",
            remedy="Check the path and who may read the file.",
        ) from None
    except UnicodeDecodeError:
        raise EnvironmentProblem(
            name=file_variable,
            problem="names a file that is not UTF-8 text",
            remedy="Write the secret as text.",
        ) from None
    if not content:
        raise EnvironmentProblem(
            name=file_variable,
            problem="names an empty file",
            remedy="Write the secret into it, or unset the variable.",
        )
    return content


def envsecretkey(name: str, *, environ: Mapping[str, str] = os.environ) -> str:
    """Django's signing key: required, and long enough for Django's own deployment check."""
    value = envsecret(name, environ=environ)
    if value is None:
        raise EnvironmentProblem(
            name=name,
            problem="is not set; sessions and signed links need it",
            remedy=f"Make one with: {HOW_TO_MAKE_A_SECRET_KEY}",
        )
    if len(value) < 50 or len(set(value)) < 5:
        raise EnvironmentProblem(
            name=name,
            problem=f"is too easily guessed ({len(value)} characters; 50 are needed)",
            remedy=f"Make one with: {HOW_TO_MAKE_A_SECRET_KEY}",
        )
    return value


def envkeyring(name: str, *, environ: Mapping[str, str] = os.environ) -> tuple[tuple[str, bytes], ...]:
    """The encryption keys as `(id, 32 bytes)`, in their order: the first encrypts, all of them decrypt.

    Written `id:base64` with commas (or, in a file, line ends) between them. Plain pairs, because the reader
    lives in an engine that must not import from here.
    """
    value = envsecret(name, environ=environ)
    remedy = f"Make a key with: {HOW_TO_MAKE_AN_ENCRYPTION_KEY}"
    if value is None:
        raise EnvironmentProblem(name=name, problem="is not set; stored provider keys need it", remedy=remedy)
    ring: list[tuple[str, bytes]] = []
    for position, entry in enumerate(re.split(r"[,\s]+", value.strip(", \t\r\n")), start=1):
        key_id, colon, encoded = entry.partition(":")
        where = f"has an unusable key at position {position}"
        if not colon or not re.fullmatch(r"[A-Za-z0-9_-]{1,16}", key_id):
            raise EnvironmentProblem(
                name=name,
                problem=f"{where}: no id of 1 to 16 letters, digits, '-' or '_' stands before a colon",
                remedy=remedy,
            )
        if key_id in dict(ring):
            raise EnvironmentProblem(
                name=name, problem=f"{where}: its id is used twice", remedy="Give every key an id of its own."
            )
        try:
            material = base64.b64decode(encoded.replace("-", "+").replace("_", "/"), validate=True)
        except (binascii.Error, ValueError):
            raise EnvironmentProblem(
                name=name, problem=f"{where}: what follows the id is not base64", remedy=remedy
            ) from None
        if len(material) != KEY_BYTES:
            raise EnvironmentProblem(
                name=name,
                problem=f"{where}: it has {len(material)} bytes instead of {KEY_BYTES}",
                remedy=remedy,
            )
        ring.append((key_id, material))
    return tuple(ring)


def envaddresses(name: str, *, environ: Mapping[str, str] = os.environ) -> tuple[tuple[str, int], ...]:
    """A comma-separated list of `host:port`; an IPv6 address stands in brackets, and is returned without
    them."""
    addresses = []
    for entry in envlist(name, environ=environ):
        host, colon, port = entry.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        bare = host[1:-1] if bracketed else host
        shape = r"[0-9A-Fa-f:.]+" if bracketed else r"[A-Za-z0-9._-]+"
        port_is_good = re.fullmatch(r"[0-9]{1,5}", port) and 0 < int(port) < 65536
        if not colon or not re.fullmatch(shape, bare) or not port_is_good:
            raise EnvironmentProblem(
                name=name,
                problem=f"has the entry {entry!r}, which is not host:port",
                remedy="Write entries as in localhost:11434,[::1]:8080, without a scheme or a path.",
            )
        addresses.append((bare.lower(), int(port)))
    return tuple(addresses)


def envobject(name: str, *, environ: Mapping[str, str] = os.environ) -> dict[str, object]:
    """A JSON object, as in `{"a.b": true}`; empty where the variable is not set."""
    value = envtext(name, environ=environ)
    if value is None:
        return {}
    remedy = 'Write an object as in {"routing.callHistory": true}, each key once.'
    try:
        found = json.loads(value, object_pairs_hook=_without_repeats)
    except ValueError as error:
        raise EnvironmentProblem(name=name, problem=f"is no JSON ({error})", remedy=remedy) from None
    if not isinstance(found, dict):
        raise EnvironmentProblem(name=name, problem="is JSON, but no object", remedy=remedy)
    return found


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands there twice")
    return found


def envpostgresql(name: str, *, environ: Mapping[str, str] = os.environ) -> PostgresqlUrl | None:
    """The PostgreSQL database of a URL, or `None` where the variable is not set.

    No part of the URL is repeated in a refusal: where a password holds an unescaped character, any part may
    be it.
    """
    url = envsecret(name, environ=environ)
    if url is None:
        return None
    remedy = "Write postgresql://user:password@host:5432/name, the password percent-encoded."
    if not url.startswith(("postgresql://", "postgres://")):
        raise EnvironmentProblem(name=name, problem="does not begin with postgresql://", remedy=remedy)
    parts, port = _split_url(name=name, url=url, remedy=remedy)
    database = unquote(parts.path.removeprefix("/"))
    if not parts.hostname or not database or "/" in database or parts.fragment:
        raise EnvironmentProblem(name=name, problem="does not name one host and one database", remedy=remedy)
    parameters = tuple(parse_qsl(parts.query, keep_blank_values=True))
    if any(parameter not in POSTGRESQL_PARAMETERS for parameter, _ in parameters):
        raise EnvironmentProblem(
            name=name,
            problem="has a parameter that is not accepted",
            remedy=f"Accepted after the question mark: {', '.join(sorted(POSTGRESQL_PARAMETERS))}.",
        )
    return PostgresqlUrl(
        host=parts.hostname,
        port=port,
        name=database,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        parameters=parameters,
    )


def envredis(name: str, *, environ: Mapping[str, str] = os.environ) -> str | None:
    """The URL of a Redis server, checked for its shape and returned as it is, or `None` where it is not
    set."""
    url = envsecret(name, environ=environ)
    if url is None:
        return None
    remedy = "Write redis://:password@host:6379/0, rediss:// for TLS, or unix:///path for a socket."
    if not url.startswith(("redis://", "rediss://", "unix://")):
        raise EnvironmentProblem(name=name, problem="does not begin with redis://, rediss:// or unix://", remedy=remedy)
    parts, _ = _split_url(name=name, url=url, remedy=remedy)
    if not (parts.path if parts.scheme == "unix" else parts.hostname):
        raise EnvironmentProblem(name=name, problem="does not name a server", remedy=remedy)
    return url


def _split_url(*, name: str, url: str, remedy: str) -> tuple[SplitResult, int | None]:
    """The URL's parts and its port. urllib's own messages repeat parts of the URL, so they are dropped."""
    try:
        parts = urlsplit(url)
        return parts, parts.port
    except ValueError:
        raise EnvironmentProblem(name=name, problem="is not a URL", remedy=remedy) from None
