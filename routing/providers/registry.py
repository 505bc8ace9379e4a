"""The adapter types: what a provider record may name, and which adapter serves it.

A host that merely speaks the OpenAI dialect is one entry here and no code. What cannot be served yet is not here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from routing.core.features import Feature
from routing.providers.adapters.anthropic import AnthropicAdapter
from routing.providers.adapters.azure_openai import AzureOpenAIAdapter
from routing.providers.adapters.gemini import GeminiAdapter
from routing.providers.adapters.openai import OpenAIAdapter
from routing.providers.adapters.openai_responses import OpenAIResponsesAdapter
from routing.providers.base import Adapter
from routing.providers.dialects.openai_chat_requests import Differences


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
_COMPATIBLE = OpenAIAdapter(Differences(limit="max_tokens"))
_PERPLEXITY = OpenAIAdapter(Differences(asks_for_usage=False, limit="max_tokens"))
_MISTRAL = OpenAIAdapter(
    Differences(
        asks_for_usage=False,  # refuses stream_options, and every field it does not know, with 422
        limit="max_tokens",
        renamed={"seed": "random_seed", "max_completion_tokens": "max_tokens"},
        lacks=frozenset({Feature.USER, Feature.VERBOSITY, Feature.SERVICE_TIER, Feature.CACHE_KEY}),
    )
)
_GROQ = OpenAIAdapter(
    Differences(
        limit="max_completion_tokens",
        lacks=frozenset({Feature.CHOICES, Feature.PARTICIPANT_NAMES}),  # answers them with 400
    )
)
_OPENROUTER = OpenAIAdapter(Differences(limit="max_tokens"), reports_cost=True)

ADAPTER_TYPES: Mapping[str, AdapterType] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            AdapterType(name="openai", label="OpenAI", adapter=_OPENAI, base_url="https://api.openai.com/v1"),
            AdapterType(
                name="openai_responses",
                label="OpenAI (responses API)",
                adapter=OpenAIResponsesAdapter(),
                base_url="https://api.openai.com/v1",
            ),
            AdapterType(name="azure_openai", label="Azure OpenAI", adapter=AzureOpenAIAdapter()),
            AdapterType(
                name="anthropic",
                label="Anthropic",
                adapter=AnthropicAdapter(),
                base_url="https://api.anthropic.com/v1",
            ),
            AdapterType(
                name="gemini",
                label="Google Gemini",
                adapter=GeminiAdapter(),
                base_url="https://generativelanguage.googleapis.com/v1beta",
            ),
            AdapterType(
                name="together",
                label="Together AI",
                adapter=_COMPATIBLE,
                base_url="https://api.together.xyz/v1",
            ),
            AdapterType(
                name="fireworks",
                label="Fireworks AI",
                adapter=_COMPATIBLE,
                base_url="https://api.fireworks.ai/inference/v1",
            ),
            AdapterType(
                name="perplexity",
                label="Perplexity",
                adapter=_PERPLEXITY,
                base_url="https://api.perplexity.ai",
            ),
            AdapterType(
                name="deepseek",
                label="DeepSeek",
                adapter=_COMPATIBLE,
                base_url="https://api.deepseek.com/v1",
            ),
            AdapterType(name="xai", label="xAI", adapter=_COMPATIBLE, base_url="https://api.x.ai/v1"),
            AdapterType(
                name="mistral",
                label="Mistral AI",
                adapter=_MISTRAL,
                base_url="https://api.mistral.ai/v1",
            ),
            AdapterType(name="groq", label="Groq", adapter=_GROQ, base_url="https://api.groq.com/openai/v1"),
            AdapterType(
                name="openrouter",
                label="OpenRouter",
                adapter=_OPENROUTER,
                base_url="https://openrouter.ai/api/v1",
            ),
            AdapterType(
                name="ollama",
                label="Ollama (its OpenAI-compatible API)",
                adapter=_COMPATIBLE,
                base_url="http://localhost:11434/v1",
                needs_key=False,
            ),
            AdapterType(
                name="vllm",
                label="vLLM",
                adapter=_COMPATIBLE,
                base_url="http://localhost:8000/v1",
                needs_key=False,
            ),
            AdapterType(
                name="lmstudio",
                label="LM Studio",
                adapter=_COMPATIBLE,
                base_url="http://localhost:1234/v1",
                needs_key=False,
            ),
            AdapterType(name="custom", label="Any OpenAI-compatible host", adapter=_COMPATIBLE, needs_key=False),
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
