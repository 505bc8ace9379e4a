"""The adapter types: what a provider record may name, and which adapter serves it.

A host that merely speaks the OpenAI dialect is one entry here and no code. What cannot be served yet is not here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from routing.providers.adapters.openai import OpenAIAdapter
from routing.providers.base import Adapter


class UnknownAdapterType(LookupError):
    """Raised for an adapter type that is not registered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterType:
    """A registered kind of API.

    Attributes:
        name: what provider records hold.
        label: what people read.
        adapter: what serves it; shared, without state.
        base_url: proposed for a new provider; empty where every installation has its own.
        needs_key: whether the host answers nobody without a key.
    """

    name: str
    label: str
    adapter: Adapter
    base_url: str = ""
    needs_key: bool = True


_OPENAI = OpenAIAdapter()
_USAGE_UNASKED = OpenAIAdapter(ask_for_usage=False)

ADAPTER_TYPES: Mapping[str, AdapterType] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            AdapterType(name="openai", label="OpenAI", adapter=_OPENAI, base_url="https://api.openai.com/v1"),
            AdapterType(
                name="together",
                label="Together AI",
                adapter=_OPENAI,
                base_url="https://api.together.xyz/v1",
            ),
            AdapterType(
                name="fireworks",
                label="Fireworks AI",
                adapter=_OPENAI,
                base_url="https://api.fireworks.ai/inference/v1",
            ),
            AdapterType(
                name="perplexity",
                label="Perplexity",
                adapter=_USAGE_UNASKED,
                base_url="https://api.perplexity.ai",
            ),
            AdapterType(
                name="deepseek",
                label="DeepSeek",
                adapter=_OPENAI,
                base_url="https://api.deepseek.com/v1",
            ),
            AdapterType(name="xai", label="xAI", adapter=_OPENAI, base_url="https://api.x.ai/v1"),
            AdapterType(
                name="mistral",
                label="Mistral AI",
                adapter=_USAGE_UNASKED,  # refuses stream_options with 422
                base_url="https://api.mistral.ai/v1",
            ),
            AdapterType(name="groq", label="Groq", adapter=_OPENAI, base_url="https://api.groq.com/openai/v1"),
            AdapterType(
                name="openrouter",
                label="OpenRouter",
                adapter=_OPENAI,
                base_url="https://openrouter.ai/api/v1",
            ),
            AdapterType(
                name="ollama",
                label="Ollama (its OpenAI-compatible API)",
                adapter=_OPENAI,
                base_url="http://localhost:11434/v1",
                needs_key=False,
            ),
            AdapterType(
                name="vllm",
                label="vLLM",
                adapter=_OPENAI,
                base_url="http://localhost:8000/v1",
                needs_key=False,
            ),
            AdapterType(
                name="lmstudio",
                label="LM Studio",
                adapter=_OPENAI,
                base_url="http://localhost:1234/v1",
                needs_key=False,
            ),
            AdapterType(name="custom", label="Any OpenAI-compatible host", adapter=_OPENAI, needs_key=False),
        )
    }
)


def adapter_for(adapter_type: str) -> Adapter:
    """The adapter that serves an adapter type. Raises :class:`UnknownAdapterType`, naming the known ones."""
    kind = ADAPTER_TYPES.get(adapter_type)
    if kind is None:
        known = ", ".join(sorted(ADAPTER_TYPES))
        raise UnknownAdapterType(f"no adapter type {adapter_type!r}; known are: {known}")
    return kind.adapter
