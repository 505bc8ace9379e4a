"""Messages as files: each delivered once, in order, and only when it is whole."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from kombu import Connection

from governance.project.folder_broker import SECONDS_TO_WRITE, Transport

QUEUE = "signalbox"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("messages", "control"):
        (tmp_path / name).mkdir()
    return tmp_path


def connection(folder: Path, transport: Any = Transport) -> "Connection":
    messages = str(folder / "messages")
    options = {"data_folder_in": messages, "data_folder_out": messages, "control_folder": str(folder / "control")}
    return Connection("filesystem://localhost", transport=transport, transport_options=options)


@pytest.fixture
def channel(folder: Path) -> Iterator[Any]:
    with connection(folder) as ours:
        yield channel_of(ours)


def channel_of(opened: Any) -> Any:
    """Its channel, of which the methods are not declared."""
    return opened.channel()


def taken(channel: Any) -> list[Any]:
    messages = []
    while True:
        try:
            messages.append(channel._get(QUEUE))
        except Empty:
            return messages


def test_what_is_put_is_taken_in_order_and_gone(channel: Any, folder: Path) -> None:
    for number in range(5):
        channel._put(QUEUE, {"number": number})
        time.sleep(0.002)  # the order is that of milliseconds
    channel._put("another", {"number": 77})
    assert [each["number"] for each in taken(channel)] == [0, 1, 2, 3, 4]
    (left,) = (folder / "messages").iterdir()
    assert left.name.endswith(".another.msg")
    assert list((folder / "control").glob("*.part")) == []


def test_only_we_can_read_a_message(channel: Any, folder: Path) -> None:
    channel._put(QUEUE, {"body": "a prompt"})
    (file,) = (folder / "messages").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_message_that_is_still_being_written_waits(channel: Any, folder: Path) -> None:
    """As a program with Kombu's own transport writes it: first a file, then its content."""
    file = folder / "messages" / f"1_x.{QUEUE}.msg"
    file.touch()
    assert taken(channel) == []
    file.write_text('{"number": 1', encoding="utf-8")
    assert taken(channel) == []
    file.write_text('{"number": 1}', encoding="utf-8")
    assert taken(channel) == [{"number": 1}]


def test_what_will_never_be_a_message_is_discarded_and_stops_nothing(channel: Any, folder: Path) -> None:
    file = folder / "messages" / f"1_x.{QUEUE}.msg"
    file.write_bytes(b"\xff\xfe")
    channel._put(QUEUE, {"number": 1})
    assert taken(channel) == [{"number": 1}]
    assert file.exists()
    long_ago = time.time() - SECONDS_TO_WRITE - 1
    os.utime(file, (long_ago, long_ago))
    assert taken(channel) == []
    assert not file.exists()


def test_many_who_take_get_each_message_once(folder: Path) -> None:
    with connection(folder) as ours:
        channel = channel_of(ours)
        for number in range(200):
            channel._put(QUEUE, {"number": number})

        def take_all(_: int) -> list[int]:
            with connection(folder) as mine:
                return [each["number"] for each in taken(channel_of(mine))]

        with ThreadPoolExecutor(4) as pool:
            numbers = [number for each in pool.map(take_all, range(4)) for number in each]
    assert sorted(numbers) == list(range(200))


def test_programs_with_kombus_own_transport_and_we_understand_each_other(folder: Path) -> None:
    with connection(folder) as ours, connection(folder, transport="filesystem") as theirs:
        channel_of(theirs)._put(QUEUE, {"number": 1})
        assert taken(channel_of(ours)) == [{"number": 1}]
        channel_of(ours)._put(QUEUE, {"number": 2})
        assert channel_of(theirs)._get(QUEUE) == {"number": 2}
