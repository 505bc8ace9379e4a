from dataclasses import replace

import pytest

from routing.core.calls import CallRequest
from routing.core.conversation import (
    Effort,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    OutputFormat,
    Part,
    ReasoningWish,
    Role,
    TextPart,
    Tool,
    ToolCall,
)
from routing.core.requirements import (
    Complexity,
    RequestFacts,
    Requirements,
    Shape,
    complexity,
    measure,
    operation_of,
    requirements_of,
)
from routing.core.vocabulary import Operation

TOOL = Tool("look_up", schema_bytes=40)
QUESTION = Message(Role.USER, (TextPart("Why?"),))
PICTURE = Message(Role.USER, (TextPart("What is it?"), ImagePart("https://images.example/1.png")))
PLAIN = CallRequest(target="assistant", messages=(QUESTION,))
FACTS = RequestFacts(messages=1, turns=1, tools=0, payload_bytes=4, token_estimate=1, shape=Shape.SINGLE_TURN)


@pytest.mark.parametrize(
    ("request_", "operation"),
    [
        (PLAIN, Operation.CHAT),
        (replace(PLAIN, messages=(PICTURE,)), Operation.VISION),
        (replace(PLAIN, tools=(TOOL,)), Operation.TOOLS),
        (replace(PLAIN, stream=True), Operation.STREAM),
        (replace(PLAIN, stream=True, tools=(TOOL,)), Operation.STREAM_TOOLS),
        (replace(PLAIN, messages=(PICTURE,), tools=(TOOL,)), Operation.TOOLS),
        (replace(PLAIN, messages=(PICTURE,), stream=True), Operation.STREAM),
    ],
    ids=["plain", "images", "tools", "streamed", "streamed-tools", "images-and-tools", "streamed-images"],
)
def test_a_request_has_exactly_one_operation(request_: CallRequest, operation: Operation) -> None:
    assert operation_of(request_) is operation


@pytest.mark.parametrize(
    ("request_", "capabilities"),
    [
        (PLAIN, {"chat"}),
        (replace(PLAIN, stream=True), set()),
        (replace(PLAIN, messages=(PICTURE,), stream=True), {"vision"}),
        (replace(PLAIN, messages=(PICTURE,), tools=(TOOL,)), {"vision", "tools"}),
        (replace(PLAIN, structured_output=OutputFormat()), {"chat", "structured_output"}),
        (replace(PLAIN, reasoning=ReasoningWish()), {"chat", "reasoning"}),
        (replace(PLAIN, reasoning=ReasoningWish(Effort.NONE)), {"chat"}),
        (replace(PLAIN, prompt_caching=True), {"chat", "prompt_caching"}),
        (replace(PLAIN, stream=True, tools=(TOOL,)), {"tools"}),
    ],
    ids=[
        "plain",
        "streamed",
        "streamed-images",
        "images-tools",
        "shape",
        "reasoning",
        "reasoning-off",
        "caching",
        "stream-tools",
    ],
)
def test_what_a_request_needs_a_model_to_declare(request_: CallRequest, capabilities: set[str]) -> None:
    assert requirements_of(request_, FACTS).capabilities == capabilities


def test_sizes_travel_with_the_requirements() -> None:
    requirements = requirements_of(replace(PLAIN, max_output=300), replace(FACTS, token_estimate=77))
    assert requirements.prompt_tokens == 77
    assert requirements.max_output == 300


def test_without_an_operation_only_the_request_demands() -> None:
    assert Requirements().capabilities == frozenset()
    assert Requirements(needs=frozenset({"tools"})).capabilities == {"tools"}
    assert Requirements(operation=Operation.EMBED).capabilities == frozenset()


def test_facts_of_a_conversation() -> None:
    facts = measure(
        CallRequest(
            target="assistant",
            messages=(
                Message(Role.SYSTEM, (TextPart("Be terse."),)),
                Message(Role.DEVELOPER, (TextPart("In German."),)),
                QUESTION,
                Message(Role.ASSISTANT, (TextPart("Weil."),)),
                Message(Role.USER, (TextPart("Grün?"), ImagePart("data:,"), OpaquePart("input_audio"))),
            ),
        )
    )
    # 9 + 10 + 4 + 5 + 6 bytes of text, the umlaut being two of them
    assert facts == RequestFacts(
        messages=5, turns=3, tools=0, payload_bytes=34, token_estimate=9, shape=Shape.MULTI_TURN
    )


def test_tool_definitions_and_calls_are_read_but_are_no_payload() -> None:
    calling = Message(Role.ASSISTANT, (), tool_calls=(ToolCall("call-1", "look_up", '{"at": 4}'),))
    answer = Message(Role.TOOL, (TextPart("done"),), answers_call="call-1")
    facts = measure(CallRequest(target="assistant", messages=(QUESTION, calling, answer), tools=(TOOL,)))
    assert facts.payload_bytes == 8
    assert facts.token_estimate == (8 + 7 + 9 + 40) // 4
    assert facts.tools == 1
    assert facts.shape is Shape.TOOL_ASSISTED


@pytest.mark.parametrize(
    ("messages", "tools", "shape"),
    [
        ((QUESTION,), (), Shape.SINGLE_TURN),
        ((Message(Role.SYSTEM, (TextPart("x"),)), QUESTION), (), Shape.SINGLE_TURN),
        ((QUESTION, QUESTION), (), Shape.MULTI_TURN),
        ((QUESTION,), (TOOL,), Shape.TOOL_ASSISTED),
        ((QUESTION, Message(Role.TOOL, (TextPart("x"),))), (), Shape.TOOL_ASSISTED),
    ],
    ids=["one", "system-and-one", "two", "tools-offered", "tool-answer"],
)
def test_the_shape_of_a_conversation(messages: tuple[Message, ...], tools: tuple[Tool, ...], shape: Shape) -> None:
    assert measure(CallRequest(target="assistant", messages=messages, tools=tools)).shape is shape


def test_lone_surrogates_are_measured() -> None:
    broken = Message(Role.USER, (TextPart("a\ud800"),))
    assert measure(replace(PLAIN, messages=(broken,))).payload_bytes == 4


def test_an_estimate_is_rounded_up() -> None:
    assert measure(replace(PLAIN, messages=(Message(Role.USER, (TextPart("fives"),)),))).token_estimate == 2
    assert measure(replace(PLAIN, messages=())).token_estimate == 0


@pytest.mark.parametrize(
    ("turns", "tools", "tokens", "context", "expected"),
    [
        (0, 0, 0, 1000, Complexity(0, 0)),
        (1, 0, 0, None, Complexity(5, None)),
        (1, 0, 0, 0, Complexity(5, None)),
        (8, 5, 1000, 1000, Complexity(100, 100)),
        (12, 9, 3000, 1000, Complexity(100, 300)),
        (1, 4, 50, 1000, Complexity(5 + 24 + 2, 5)),  # 1.5 points of context are two
        (1, 0, 5, 1000, Complexity(5, 1)),  # half a per cent is one, which is 0.3 points
    ],
)
def test_complexity(turns: int, tools: int, tokens: int, context: int | None, expected: Complexity) -> None:
    facts = replace(FACTS, turns=turns, tools=tools, token_estimate=tokens)
    assert complexity(facts, context_length=context) == expected


@pytest.mark.parametrize(
    ("parts", "images", "files"),
    [
        ((TextPart("Why?"),), 0, 0),
        ((ImagePart("https://images.example/1.png"), ImagePart("data:image/png;base64,AAAA", detail="low")), 2, 0),
        ((FilePart("data:application/pdf;base64,AAAA"), OpaquePart("input_audio"), OpaquePart("document")), 0, 3),
        ((OpaquePart("input_image"), OpaquePart("image"), OpaquePart("input_file")), 2, 1),
        ((OpaquePart("server_tool_use"), OpaquePart("web_search_call")), 0, 0),
    ],
    ids=["text", "images", "files", "kept at the vendor", "what is neither"],
)
def test_images_and_files_are_counted_wherever_they_are(parts: tuple[Part, ...], images: int, files: int) -> None:
    """In a question as in what a tool gives back; and in no estimate of the text."""
    request = replace(PLAIN, messages=(QUESTION, Message(Role.USER, parts), Message(Role.TOOL, parts)))
    found = requirements_of(request, measure(request))
    assert (found.images, found.files) == (2 * images, 2 * files)
    assert found.prompt_tokens in (1, 3)
