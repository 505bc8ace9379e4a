"""Everything a request can ask for, by name, and which of it a given request does ask for.

A protocol in says which field asks for which feature, a dialect out which features it carries, and how. From the two
comes the table of every pair, and the refusal of whatever is not carried: nothing is dropped in silence.
"""

from collections.abc import Iterator
from enum import StrEnum

from routing.core.calls import CallRequest
from routing.core.conversation import (
    INSTRUCTING,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    Tool,
    ToolKind,
    ToolMode,
)


class Feature(StrEnum):
    """One thing a request can ask for. Texts, roles and the model's own turns need no name: every dialect has them."""

    INSTRUCTIONS = "instructions"
    LATER_INSTRUCTIONS = "laterInstructions"
    PARTICIPANT_NAMES = "participantNames"
    IMAGE_DATA = "imageData"
    IMAGE_LINK = "imageLink"
    IMAGE_DETAIL = "imageDetail"
    FILE_DATA = "fileData"
    FILE_LINK = "fileLink"
    OTHER_PARTS = "otherParts"
    TOOLS = "tools"
    STRICT_TOOLS = "strictTools"
    CUSTOM_TOOLS = "customTools"
    GRAMMAR = "grammar"
    NAMESPACED_TOOLS = "namespacedTools"
    HOSTED_TOOLS = "hostedTools"
    TOOL_RESULT_FAILED = "toolResultFailed"
    TOOL_RESULT_PARTS = "toolResultParts"
    CHOICE_NONE = "choiceNone"
    CHOICE_REQUIRED = "choiceRequired"
    CHOICE_NAMED = "choiceNamed"
    PARALLEL_CALLS = "parallelCalls"
    JSON_OBJECT = "jsonObject"
    JSON_SCHEMA = "jsonSchema"
    REASONING = "reasoning"
    REASONING_EFFORT = "reasoningEffort"
    REASONING_BUDGET = "reasoningBudget"
    REASONING_OFF = "reasoningOff"
    REASONING_TEXTS = "reasoningTexts"
    SEALED_REASONING = "sealedReasoning"
    MAX_OUTPUT = "maxOutput"
    TEMPERATURE = "temperature"
    TOP_P = "topP"
    TOP_K = "topK"
    PRESENCE_PENALTY = "presencePenalty"
    FREQUENCY_PENALTY = "frequencyPenalty"
    SEED = "seed"
    STOP = "stop"
    CHOICES = "choices"
    VERBOSITY = "verbosity"
    USER = "user"
    METADATA = "metadata"
    SERVICE_TIER = "serviceTier"
    CACHE_MARKS = "cacheMarks"
    CACHE_KEY = "cacheKey"
    STREAM_USAGE = "streamUsage"
    PROMPT = "prompt"
    SEVERAL_PROMPTS = "severalPrompts"
    ENCODED_PROMPTS = "encodedPrompts"
    TEXT_INPUTS = "textInputs"
    ENCODED_INPUTS = "encodedInputs"
    DIMENSIONS = "dimensions"


_CHOICES = {
    ToolMode.NONE: Feature.CHOICE_NONE,
    ToolMode.REQUIRED: Feature.CHOICE_REQUIRED,
    ToolMode.NAMED: Feature.CHOICE_NAMED,
}


def features_of(request: CallRequest) -> frozenset[Feature]:
    """Everything the request asks for, read from its canonical form."""
    return frozenset((*_of_messages(request.messages), *_of_tools(request), *_of_settings(request)))


def _of_messages(messages: tuple[Message, ...]) -> Iterator[Feature]:
    has_begun = False
    for message in messages:
        if message.role in INSTRUCTING:
            yield Feature.LATER_INSTRUCTIONS if has_begun else Feature.INSTRUCTIONS
        else:
            has_begun = True
        if message.name:
            yield Feature.PARTICIPANT_NAMES
        if message.has_failed:
            yield Feature.TOOL_RESULT_FAILED
        if message.role is Role.TOOL and not all(isinstance(part, TextPart) for part in message.parts):
            yield Feature.TOOL_RESULT_PARTS
        for part in message.parts:
            yield from _of_part(part)
        for call in message.tool_calls:
            if call.kind is ToolKind.CUSTOM:
                yield Feature.CUSTOM_TOOLS
            if call.namespace:
                yield Feature.NAMESPACED_TOOLS
            if call.mark is not None:
                yield Feature.CACHE_MARKS


def _of_part(part: Part) -> Iterator[Feature]:
    match part:
        case ImagePart(url=url, detail=detail):
            yield Feature.IMAGE_DATA if url.startswith("data:") else Feature.IMAGE_LINK
            if detail:
                yield Feature.IMAGE_DETAIL
        case FilePart(url=url):
            yield Feature.FILE_DATA if url.startswith("data:") else Feature.FILE_LINK
        case ReasoningPart(issuer=issuer):
            yield Feature.REASONING_TEXTS if issuer is None else Feature.SEALED_REASONING
        case OpaquePart():
            yield Feature.OTHER_PARTS
        case _:
            pass
    if isinstance(part, TextPart | ImagePart | FilePart) and part.mark is not None:
        yield Feature.CACHE_MARKS


def _of_tools(request: CallRequest) -> Iterator[Feature]:
    for tool in request.tools:
        yield from _of_tool(tool)
    if request.tool_choice is not None and request.tool_choice.mode in _CHOICES:
        yield _CHOICES[request.tool_choice.mode]
    if request.parallel_calls is False and request.tools:
        yield Feature.PARALLEL_CALLS


def _of_tool(tool: Tool) -> Iterator[Feature]:
    if tool.kind is ToolKind.HOSTED:
        yield Feature.HOSTED_TOOLS
        return
    yield Feature.CUSTOM_TOOLS if tool.kind is ToolKind.CUSTOM else Feature.TOOLS
    if tool.grammar is not None:
        yield Feature.GRAMMAR
    if tool.strict:
        yield Feature.STRICT_TOOLS
    if tool.namespace:
        yield Feature.NAMESPACED_TOOLS
    if tool.mark is not None:
        yield Feature.CACHE_MARKS


def _of_settings(request: CallRequest) -> Iterator[Feature]:
    if request.structured_output is not None:
        yield Feature.JSON_OBJECT if request.structured_output.schema is None else Feature.JSON_SCHEMA
    if request.reasoning is not None:
        if not request.reasoning.is_on:
            yield Feature.REASONING_OFF
        elif request.reasoning.budget is not None:
            yield Feature.REASONING_BUDGET
        else:
            yield Feature.REASONING if request.reasoning.effort is None else Feature.REASONING_EFFORT
    sampling, embedding = request.sampling, request.embedding
    said = {
        Feature.MAX_OUTPUT: request.max_output,
        Feature.TEMPERATURE: sampling.temperature,
        Feature.TOP_P: sampling.top_p,
        Feature.TOP_K: sampling.top_k,
        Feature.PRESENCE_PENALTY: sampling.presence_penalty or None,  # 0 is what everybody does anyway
        Feature.FREQUENCY_PENALTY: sampling.frequency_penalty or None,
        Feature.SEED: sampling.seed,
        Feature.STOP: request.stop or None,
        Feature.CHOICES: None if request.choices == 1 else request.choices,
        Feature.VERBOSITY: request.verbosity or None,
        Feature.USER: request.user or None,
        Feature.METADATA: request.metadata or None,
        Feature.SERVICE_TIER: request.service_tier or None,
        Feature.CACHE_KEY: request.cache_key or None,
        Feature.STREAM_USAGE: request.wants_usage or None,
        Feature.PROMPT: request.prompts or None,
        Feature.SEVERAL_PROMPTS: len(request.prompts) > 1 or None,
        Feature.ENCODED_PROMPTS: any(not isinstance(each, str) for each in request.prompts) or None,
        Feature.TEXT_INPUTS: (embedding is not None and embedding.texts) or None,
        Feature.ENCODED_INPUTS: (embedding is not None and embedding.has_tokens) or None,
        Feature.DIMENSIONS: None if embedding is None else embedding.dimensions,
    }
    yield from (feature for feature, value in said.items() if value is not None)
