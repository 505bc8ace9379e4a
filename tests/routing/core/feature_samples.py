"""One request for every feature: what asks for it, and for as little else as possible."""

from base64 import b64encode
from dataclasses import replace

from routing.core.calls import CallRequest
from routing.core.conversation import (
    CacheMark,
    Effort,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    OutputFormat,
    Part,
    Protocol,
    ReasoningPart,
    ReasoningWish,
    Role,
    Sampling,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    ToolKind,
    ToolMode,
)
from routing.core.embeddings import EmbeddingWish, Input
from routing.core.features import Feature as F

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL = Tool("look_up", 90, "Looks a city up", SCHEMA)
PATCH = Tool("patch", 40, "Applies a patch", kind=ToolKind.CUSTOM)
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": 'start: "a"'}
PIXEL = "data:image/png;base64,iVBORw0KGgo="
PDF = "data:application/pdf;base64," + b64encode(b"%PDF-1.7 sample").decode()


def said(text: str, role: Role = Role.USER) -> Message:
    """A message of one text."""
    return Message(role, (TextPart(text),))


def plain(*messages: Message) -> CallRequest:
    """A request that asks for nothing but an answer."""
    return CallRequest(target="support-chat", messages=messages or (said("Why?"),))


def showing(*parts: Part) -> CallRequest:
    """A request whose one message has further parts."""
    return plain(Message(Role.USER, (TextPart("What is it?"), *parts)))


def asked(*, result: Message, call: ToolCall | None = None) -> CallRequest:
    """A request after a tool was called."""
    called = call or ToolCall("call-1", "look_up", '{"city":"Ulm"}')
    return replace(plain(said("Where?"), Message(Role.ASSISTANT, tool_calls=(called,)), result), tools=(TOOL,))


def sampled(**settings: float) -> CallRequest:
    """A request that says how tokens are drawn."""
    return replace(plain(), sampling=Sampling(**settings))  # type: ignore[arg-type]  # seed and top_k are whole


def choosing(mode: ToolMode, name: str = "") -> CallRequest:
    """A request that says how tools are chosen."""
    return replace(plain(), tools=(TOOL,), tool_choice=ToolChoice(mode, name))


def answering(reasoning: ReasoningPart) -> CallRequest:
    """A request that hands reasoning back."""
    earlier = Message(Role.ASSISTANT, (reasoning, TextPart("It rained.")))
    return plain(said("Why?"), earlier, said("And then?"))


def embedding(wish: EmbeddingWish) -> CallRequest:
    """A request for vectors."""
    return CallRequest(target="similar", messages=(), embedding=wish)


def continuing(*prompts: Input) -> CallRequest:
    """A request that writes on from prompts."""
    messages = tuple(said(each) for each in prompts if isinstance(each, str))
    return CallRequest(target="support-chat", messages=messages, prompts=prompts)


RESULT = Message(Role.TOOL, (TextPart("On the Danube"),), answers_call="call-1")

SAMPLES: dict[F, CallRequest] = {
    F.INSTRUCTIONS: plain(said("Be brief.", Role.SYSTEM), said("Why?")),
    F.LATER_INSTRUCTIONS: plain(said("Why?"), said("Be brief.", Role.DEVELOPER), said("Well?")),
    F.PARTICIPANT_NAMES: plain(replace(said("Why?"), name="ann")),
    F.IMAGE_DATA: showing(ImagePart(PIXEL)),
    F.IMAGE_LINK: showing(ImagePart("https://images.example/1.png")),
    F.IMAGE_DETAIL: showing(ImagePart("https://images.example/1.png", "low")),
    F.FILE_DATA: showing(FilePart(PDF, "report.pdf")),
    F.FILE_LINK: showing(FilePart("https://files.example/report.pdf", "report.pdf")),
    F.OTHER_PARTS: showing(OpaquePart("input_audio")),
    F.TOOLS: replace(plain(), tools=(TOOL,)),
    F.STRICT_TOOLS: replace(plain(), tools=(replace(TOOL, strict=True),)),
    F.CUSTOM_TOOLS: replace(plain(), tools=(PATCH,)),
    F.GRAMMAR: replace(plain(), tools=(replace(PATCH, grammar=GRAMMAR),)),
    F.NAMESPACED_TOOLS: replace(plain(), tools=(replace(TOOL, namespace="atlas"),)),
    F.HOSTED_TOOLS: replace(plain(), tools=(Tool("web_search", 20, kind=ToolKind.HOSTED),)),
    F.TOOL_RESULT_FAILED: asked(result=replace(RESULT, has_failed=True)),
    F.TOOL_RESULT_PARTS: asked(result=replace(RESULT, parts=(TextPart("A map"), ImagePart(PIXEL)))),
    F.CHOICE_NONE: choosing(ToolMode.NONE),
    F.CHOICE_REQUIRED: choosing(ToolMode.REQUIRED),
    F.CHOICE_NAMED: choosing(ToolMode.NAMED, "look_up"),
    F.PARALLEL_CALLS: replace(plain(), tools=(TOOL,), parallel_calls=False),
    F.JSON_OBJECT: replace(plain(), structured_output=OutputFormat()),
    F.JSON_SCHEMA: replace(plain(), structured_output=OutputFormat(SCHEMA, "place", strict=True)),
    F.REASONING: replace(plain(), reasoning=ReasoningWish()),
    F.REASONING_EFFORT: replace(plain(), reasoning=ReasoningWish(Effort.HIGH)),
    F.REASONING_BUDGET: replace(plain(), reasoning=ReasoningWish(budget=2048)),
    F.REASONING_OFF: replace(plain(), reasoning=ReasoningWish(Effort.NONE)),
    F.REASONING_TEXTS: answering(ReasoningPart("Clouds, then.")),
    F.SEALED_REASONING: answering(ReasoningPart("Clouds, then.", "c2VhbA==", Protocol.ANTHROPIC, "rs-1")),
    F.MAX_OUTPUT: replace(plain(), max_output=321),
    F.TEMPERATURE: sampled(temperature=0.25),
    F.TOP_P: sampled(top_p=0.75),
    F.TOP_K: sampled(top_k=12),
    F.PRESENCE_PENALTY: sampled(presence_penalty=0.5),
    F.FREQUENCY_PENALTY: sampled(frequency_penalty=-0.5),
    F.SEED: sampled(seed=77),
    F.STOP: replace(plain(), stop=("END", "STOP")),
    F.CHOICES: replace(plain(), choices=3),
    F.VERBOSITY: replace(plain(), verbosity="low"),
    F.USER: replace(plain(), user="ann@example.com"),
    F.METADATA: replace(plain(), metadata={"ticket": "4711"}),
    F.SERVICE_TIER: replace(plain(), service_tier="default"),
    F.CACHE_MARKS: plain(Message(Role.USER, (TextPart("A long text", CacheMark.LONG),))),
    F.CACHE_KEY: replace(plain(), cache_key="conversation-9"),
    F.STREAM_USAGE: replace(plain(), stream=True, wants_usage=True),
    F.PROMPT: continuing("Once upon a time"),
    F.SEVERAL_PROMPTS: continuing("Once", "Twice"),
    F.ENCODED_PROMPTS: continuing((15, 3)),
    F.TEXT_INPUTS: embedding(EmbeddingWish(("Ulm", "Bern"))),
    F.ENCODED_INPUTS: embedding(EmbeddingWish(((15, 3), (9,)))),
    F.DIMENSIONS: embedding(EmbeddingWish(("Ulm", "Bern"), dimensions=3)),
}

BESIDES: dict[F, frozenset[F]] = {
    F.IMAGE_DETAIL: frozenset({F.IMAGE_LINK}),
    F.STRICT_TOOLS: frozenset({F.TOOLS}),
    F.GRAMMAR: frozenset({F.CUSTOM_TOOLS}),
    F.NAMESPACED_TOOLS: frozenset({F.TOOLS}),
    F.TOOL_RESULT_FAILED: frozenset({F.TOOLS}),
    F.TOOL_RESULT_PARTS: frozenset({F.TOOLS, F.IMAGE_DATA}),
    F.CHOICE_NONE: frozenset({F.TOOLS}),
    F.CHOICE_REQUIRED: frozenset({F.TOOLS}),
    F.CHOICE_NAMED: frozenset({F.TOOLS}),
    F.PARALLEL_CALLS: frozenset({F.TOOLS}),
    F.SEVERAL_PROMPTS: frozenset({F.PROMPT}),
    F.ENCODED_PROMPTS: frozenset({F.PROMPT}),
    F.DIMENSIONS: frozenset({F.TEXT_INPUTS}),
}
"""What a sample cannot help asking for besides."""


def sealed_for(protocol: Protocol) -> CallRequest:
    """A request that hands back reasoning of one vendor."""
    return answering(ReasoningPart("Clouds, then.", "c2VhbA==", protocol, "rs-1"))


_WITH_TOOLS = replace(plain(), tools=(TOOL,))
_WITHOUT: dict[F, CallRequest] = {
    F.LATER_INSTRUCTIONS: plain(said("Why?"), said("Well?")),
    F.IMAGE_DETAIL: SAMPLES[F.IMAGE_LINK],
    F.STRICT_TOOLS: _WITH_TOOLS,
    F.GRAMMAR: SAMPLES[F.CUSTOM_TOOLS],
    F.NAMESPACED_TOOLS: _WITH_TOOLS,
    F.TOOL_RESULT_FAILED: asked(result=RESULT),
    F.TOOL_RESULT_PARTS: asked(result=RESULT),
    F.CHOICE_NONE: _WITH_TOOLS,
    F.CHOICE_REQUIRED: _WITH_TOOLS,
    F.CHOICE_NAMED: _WITH_TOOLS,
    F.PARALLEL_CALLS: _WITH_TOOLS,
    F.REASONING_TEXTS: plain(said("Why?"), said("It rained.", Role.ASSISTANT), said("And then?")),
    F.SEALED_REASONING: plain(said("Why?"), said("It rained.", Role.ASSISTANT), said("And then?")),
    F.CACHE_MARKS: plain(said("A long text")),
    F.STREAM_USAGE: replace(plain(), stream=True),
    F.DIMENSIONS: SAMPLES[F.TEXT_INPUTS],
}


def without(feature: F) -> CallRequest:
    """The sample of a feature without the feature."""
    return _WITHOUT.get(feature, plain())
