"""The fields of a protocol's request as the vendor's own client types them: the list that our data is held to."""

import inspect
import types
import typing
from collections.abc import Iterable, Iterator
from typing import Any, get_args, get_origin

import typing_extensions


def field_paths(kind: Any, *, opaque: Iterable[str] = ()) -> set[str]:
    """Every field of a request, nested ones as paths. Below the paths in ``opaque`` nothing is looked at."""
    return set(_paths(kind, "", frozenset(opaque), frozenset()))


def _paths(kind: Any, prefix: str, opaque: frozenset[str], seen: frozenset[Any]) -> Iterator[str]:
    if prefix in opaque or kind in seen:
        return
    for each in _typed_dicts(kind):
        if each in seen:
            continue
        for name, hint in _hints(each).items():
            path = f"{prefix}.{name}" if prefix else name
            yield path
            yield from _paths(hint, path, opaque, seen | {each})


def _typed_dicts(kind: Any) -> Iterator[Any]:
    """The typed dictionaries that a type holds, through unions, lists and annotations."""
    if typing_extensions.is_typeddict(kind):
        yield kind
        return
    origin = get_origin(kind)
    if origin in (dict, typing.Literal):
        return
    if origin is not None or isinstance(kind, types.UnionType):
        for each in get_args(kind):
            yield from _typed_dicts(each)


def _hints(kind: Any) -> dict[str, Any]:
    """The members of a typed dictionary; those of its bases are read in their own modules."""
    hints: dict[str, Any] = {}
    for base in (*getattr(kind, "__orig_bases__", ()), kind):
        if typing_extensions.is_typeddict(base):
            module = inspect.getmodule(base)
            space = {**vars(typing), **(vars(module) if module else {})}
            hints |= typing_extensions.get_type_hints(base, globalns=space)
    return hints
