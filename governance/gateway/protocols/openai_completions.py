"""OpenAI's legacy completions, as callers ask for them: requests in.

A prompt that is one text can be answered in a chat, as the one message of its user. Everything that has to do with how
a text goes on from its very letters is for hosts of this protocol alone.
"""

from collections.abc import Mapping
from types import MappingProxyType

from governance.gateway.protocols.checks import STEERING, Settings, count, flag, invalid, refuse_steering, target_of
from governance.gateway.protocols.fields import NATIVE, OURS, READ, REFUSED, Field, FieldBook, native_but, reads
from governance.gateway.protocols.json_body import read_document
from governance.gateway.protocols.openai_embeddings import inputs_of
from routing.core.calls import CallRequest, Original
from routing.core.conversation import Message, Protocol, Role, Sampling, TextPart
from routing.core.features import Feature as F

FIELDS: Mapping[str, Field] = MappingProxyType(
    {
        **dict.fromkeys(STEERING, REFUSED),
        "model": OURS,
        "stream": OURS,
        "stream_options": READ,
        "stream_options.include_usage": reads(F.STREAM_USAGE),
        "stream_options.include_obfuscation": native_but(False),
        "prompt": reads(F.PROMPT, F.SEVERAL_PROMPTS, F.ENCODED_PROMPTS),
        "suffix": NATIVE,
        "echo": native_but(False),
        "max_tokens": reads(F.MAX_OUTPUT),
        "temperature": reads(F.TEMPERATURE),
        "top_p": reads(F.TOP_P),
        "presence_penalty": reads(F.PRESENCE_PENALTY),
        "frequency_penalty": reads(F.FREQUENCY_PENALTY),
        "seed": reads(F.SEED),
        "stop": reads(F.STOP),
        "n": native_but(1),
        "best_of": native_but(1),
        "logprobs": NATIVE,
        "logit_bias": native_but({}),
        "user": reads(F.USER),
    }
)
"""What becomes of each field. A test holds it to the fields that the vendor's client knows."""

BOOK = FieldBook(FIELDS)


def read_request(body: bytes) -> CallRequest:
    """The canonical call of a request body.

    Raises:
        RequestProblem: 400 naming the field and what it should be.
    """
    document, kept = read_document(body)
    refuse_steering(document)
    options = document.get("stream_options")
    if options is not None and not isinstance(options, dict):
        raise invalid("stream_options", "an object is needed")
    uncarried = [
        *BOOK.uncarried(document),
        *BOOK.uncarried(options or {}, "stream_options", "stream_options"),
    ]
    settings = Settings(document, uncarried)
    prompts = inputs_of(document, "prompt", uncarried)
    if not prompts:
        raise invalid("prompt", "a text, tokens, or a list of either is needed")
    return CallRequest(
        target=target_of(document),
        messages=tuple(Message(Role.USER, (TextPart(each),)) for each in prompts if isinstance(each, str)),
        prompts=prompts,
        stream=flag(document, "stream"),
        wants_usage=options is not None and options.get("include_usage") is True,
        max_output=count(document, "max_tokens", least=0),
        sampling=Sampling(
            temperature=settings.number("temperature"),
            top_p=settings.number("top_p"),
            presence_penalty=settings.number("presence_penalty"),
            frequency_penalty=settings.number("frequency_penalty"),
            seed=settings.whole("seed"),
        ),
        stop=settings.texts("stop"),
        choices=(count(document, "n") or 1) * len(prompts),
        user=settings.text("user"),
        uncarried=tuple(uncarried),
        original=Original(Protocol.OPENAI_COMPLETIONS, kept, document, BOOK.names),
    )
