"""The official OpenAI client's embeddings: it asks for base64 by itself, and for numbers where it is told to."""

import openai
import pytest

from tests.clients.conftest import Installation
from tests.servers.simulator import SimulatorServer

pytestmark = pytest.mark.database

TEXTS = ["Where is my parcel?", "It left on Monday.", "Grüße aus Ulm 🌌"]


def test_vectors_as_the_client_asks_for_them(sdk: openai.OpenAI, simulator: SimulatorServer) -> None:
    raw = sdk.embeddings.with_raw_response.create(model="support-chat", input=TEXTS, dimensions=8)
    answer = raw.parse()
    assert [each.index for each in answer.data] == [0, 1, 2]
    assert {len(each.embedding) for each in answer.data} == {8}
    assert all(isinstance(number, float) for each in answer.data for number in each.embedding)
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 0
    assert raw.headers["x-signalbox-route"] == "prod-east/fast"
    assert raw.headers["x-signalbox-cost"].endswith(" USD")
    assert answer._request_id == raw.headers["x-request-id"]


def test_both_spellings_are_the_same_vectors(sdk: openai.OpenAI) -> None:
    in_base64 = sdk.embeddings.create(model="support-chat", input=TEXTS, dimensions=8)
    in_numbers = sdk.embeddings.create(model="support-chat", input=TEXTS, dimensions=8, encoding_format="float")
    for one, other in zip(in_base64.data, in_numbers.data, strict=True):
        assert one.embedding == pytest.approx(other.embedding, rel=1e-6)


def test_one_text_and_tokens(sdk: openai.OpenAI) -> None:
    assert len(sdk.embeddings.create(model="support-chat", input=TEXTS[0]).data) == 1
    assert len(sdk.embeddings.create(model="support-chat", input=[15, 3, 9]).data) == 1
    assert len(sdk.embeddings.create(model="support-chat", input=[[15, 3], [9]]).data) == 2


def test_what_a_caller_does_wrong(sdk: openai.OpenAI, installation: Installation) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.embeddings.create(model="support-chat", input=[])
    assert caught.value.param == "input"
    with pytest.raises(openai.PermissionDeniedError):
        sdk.embeddings.create(model="secret-chat", input="x")
    assert installation.received == 0


def test_a_failure_is_not_tried_again_by_the_client(
    sdk: openai.OpenAI, installation: Installation, simulator: SimulatorServer
) -> None:
    simulator.fail("503")
    with pytest.raises(openai.InternalServerError):
        sdk.embeddings.create(model="support-chat", input=TEXTS)
    assert installation.received == 2  # our own repetition, and none of the client's
