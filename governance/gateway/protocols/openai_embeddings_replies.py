"""OpenAI's embeddings, as callers read them: answers of other protocols written anew."""

from collections.abc import Sequence
from typing import Any

import orjson

from governance.gateway.protocols.base import Head
from governance.gateway.protocols.openai_chat_replies import OpenAIChatWriter
from routing.core.calls import Event, Started, UsageReported
from routing.core.conversation import Protocol
from routing.core.embeddings import Embedded


class OpenAIEmbeddingsWriter(OpenAIChatWriter):
    """See ``base.Writer``. One vendor, one envelope; what is inherited of streams and refusals nobody asks for here."""

    protocol = Protocol.OPENAI_EMBEDDINGS
    has_refusals = False

    def reply(self, events: Sequence[Event], *, head: Head) -> bytes:
        data: list[dict[str, Any]] = []
        document: dict[str, Any] = {"object": "list", "data": data, "model": head.model}
        for event in events:
            match event:
                case Embedded(index, vector):
                    data.append({"object": "embedding", "index": index, "embedding": vector})
                case Started(model=model) if model:
                    document["model"] = model
                case UsageReported(usage=usage):
                    document["usage"] = {"prompt_tokens": usage.prompt, "total_tokens": usage.prompt}
        return orjson.dumps(document)
