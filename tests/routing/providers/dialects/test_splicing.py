from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.providers.dialects.splicing import members_of, splice

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(
    st.dictionaries(
        st.sampled_from(["model", "a", 'q"', "é", "stream_options"]) | st.text(max_size=4), JSON, max_size=6
    ),
    st.sampled_from([0, orjson.OPT_INDENT_2, orjson.OPT_APPEND_NEWLINE]),
)
def test_spliced_is_the_same_as_parsed_changed_and_written(document: dict[str, Any], option: int) -> None:
    body = orjson.dumps(document, option=option)
    changed = splice(body, {"model": b'"m"', "x": b"[1]"})
    assert list(orjson.loads(changed).items()) == list((document | {"model": "m", "x": [1]}).items())
    assert splice(body, {}) == body


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"{}", b'{"x":1}'),
        (b" { \n} ", b' {"x":1 \n} '),
        (b'{"a":{"x":0}}', b'{"a":{"x":0},"x":1}'),
        (b'{"a":"}\\"x","x" : [0, {"x":2}] }', b'{"a":"}\\"x","x" : 1 }'),
        (b'{"\\u0078":0}', b'{"\\u0078":1}'),
    ],
)
def test_members_are_replaced_or_appended(body: bytes, expected: bytes) -> None:
    assert splice(body, {"x": b"1"}) == expected


def test_members_are_found_where_they_are() -> None:
    body = b'{"a" : 1 , "b":[1,{"c":2}]}'
    assert [(key, body[begin:end]) for key, begin, end in members_of(body)] == [("a", b"1"), ("b", b'[1,{"c":2}]')]
