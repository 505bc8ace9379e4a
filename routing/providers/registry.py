"""The adapter types: what a provider record may name, and which adapter serves it.

A host that merely speaks the OpenAI dialect is one entry here and no code. What cannot be served yet is not here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from routing.core.calls import CallRequest
from routing.core.failures import Failure, FailureKind
from routing.core.features import Feature
from routing.core.vocabulary import Capability
from routing.providers.adapters.anthropic import AnthropicAdapter
from routing.providers.adapters.azure_openai import AzureEmbeddings, AzureOpenAIAdapter
from routing.providers.adapters.gemini import GeminiAdapter, GeminiEmbeddings
from routing.providers.adapters.ollama import OllamaAdapter, OllamaEmbeddings
from routing.providers.adapters.openai import OpenAIAdapter, OpenAICompletions, OpenAIEmbeddings
from routing.providers.adapters.openai_responses import OpenAIResponsesAdapter
from routing.providers.base import Adapter, Api
from routing.providers.dialects import openai_embeddings
from routing.providers.dialects.carrying import UNSUPPORTED_CONVERSION, NotCarried
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
        embeddings: what makes embeddings there; ``None`` where nobody does.
        completions: what serves legacy completions there; ``None`` where a chat has to.
        completes_undeclared: whether a model of which nothing is declared serves them too: at hosts where all do.
        base_url: proposed for a new provider; empty where every installation has its own.
        needs_key: whether the host answers nobody without a key.
    """

    name: str
    label: str
    adapter: Adapter
    embeddings: Api | None = None
    completions: Api | None = None
    completes_undeclared: bool = True
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
        lacks=frozenset(
            {Feature.USER, Feature.VERBOSITY, Feature.SERVICE_TIER, Feature.PARTICIPANT_NAMES, Feature.FILE_DATA}
        ),
        refuses=frozenset({"logprobs", "top_logprobs", "logit_bias", "audio", "web_search_options"}),
    )
)
_GROQ = OpenAIAdapter(
    Differences(
        limit="max_completion_tokens",
        lacks=frozenset({Feature.CHOICES, Feature.PARTICIPANT_NAMES}),  # answers them with 400
        refuses=frozenset({"logprobs", "top_logprobs", "logit_bias"}),
    )
)
_OPENROUTER = OpenAIAdapter(Differences(limit="max_tokens"), reports_cost=True)

_COMPLETIONS = OpenAICompletions()
_EMBEDDINGS = OpenAIEmbeddings()
_NUMBERS = OpenAIEmbeddings(openai_embeddings.Differences(spells_base64=False))
_MISTRAL_EMBEDDINGS = OpenAIEmbeddings(
    openai_embeddings.Differences(
        renamed={"dimensions": "output_dimension"}, lacks=frozenset({Feature.USER, Feature.ENCODED_INPUTS})
    )
)

ADAPTER_TYPES: Mapping[str, AdapterType] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            AdapterType(
                name="openai",
                label="OpenAI",
                adapter=_OPENAI,
                embeddings=_EMBEDDINGS,
                completions=_COMPLETIONS,
                completes_undeclared=False,
                base_url="https://api.openai.com/v1",
            ),
            AdapterType(
                name="openai_responses",
                label="OpenAI (responses API)",
                adapter=OpenAIResponsesAdapter(),
                embeddings=_EMBEDDINGS,
                base_url="https://api.openai.com/v1",
            ),
            AdapterType(
                name="azure_openai", label="Azure OpenAI", adapter=AzureOpenAIAdapter(), embeddings=AzureEmbeddings()
            ),
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
                embeddings=GeminiEmbeddings(),
                base_url="https://generativelanguage.googleapis.com/v1beta",
            ),
            AdapterType(
                name="together",
                label="Together AI",
                adapter=_COMPATIBLE,
                embeddings=_NUMBERS,
                completions=_COMPLETIONS,
                base_url="https://api.together.xyz/v1",
            ),
            AdapterType(
                name="fireworks",
                label="Fireworks AI",
                adapter=_COMPATIBLE,
                embeddings=_NUMBERS,
                completions=_COMPLETIONS,
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
                embeddings=_MISTRAL_EMBEDDINGS,
                base_url="https://api.mistral.ai/v1",
            ),
            AdapterType(name="groq", label="Groq", adapter=_GROQ, base_url="https://api.groq.com/openai/v1"),
            AdapterType(
                name="openrouter",
                label="OpenRouter",
                adapter=_OPENROUTER,
                embeddings=OpenAIEmbeddings(reports_cost=True),
                completions=OpenAICompletions(reports_cost=True),
                base_url="https://openrouter.ai/api/v1",
            ),
            AdapterType(
                name="ollama",
                label="Ollama",
                adapter=OllamaAdapter(),
                embeddings=OllamaEmbeddings(),
                base_url="http://localhost:11434",
                needs_key=False,
            ),
            AdapterType(
                name="vllm",
                label="vLLM",
                adapter=_COMPATIBLE,
                embeddings=_EMBEDDINGS,
                completions=_COMPLETIONS,
                base_url="http://localhost:8000/v1",
                needs_key=False,
            ),
            AdapterType(
                name="lmstudio",
                label="LM Studio",
                adapter=_COMPATIBLE,
                embeddings=_NUMBERS,
                completions=_COMPLETIONS,
                base_url="http://localhost:1234/v1",
                needs_key=False,
            ),
            AdapterType(
                name="custom",
                label="Any OpenAI-compatible host",
                adapter=_COMPATIBLE,
                embeddings=_EMBEDDINGS,
                completions=_COMPLETIONS,
                needs_key=False,
            ),
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


def api_for(adapter_type: str, request: CallRequest, *, declared: frozenset[str] = frozenset()) -> Api:
    """What of an adapter type serves a request.

    Args:
        adapter_type: a registered one, else :class:`UnknownAdapterType` is raised.
        request: the call.
        declared: the capabilities that the model is believed to have; empty if nothing is known.

    Raises ``NotCarried`` where nothing there makes what the request asks for. A model that declares what it can, and
    embeddings are not among it, is not asked for them: vendors refuse that as they refuse a key, which would rest the
    model's route for everybody. For the same reason a legacy completion goes to a model that does not declare it as a
    chat.
    """
    adapter = adapter_for(adapter_type)
    kind = ADAPTER_TYPES[adapter_type]
    if request.prompts and kind.completions is not None:
        native = Capability.COMPLETION in declared if declared else kind.completes_undeclared
        return kind.completions if native else adapter
    if request.embedding is None:
        return adapter
    embeddings = kind.embeddings
    if embeddings is None:
        raise _cannot_embed(f"providers of the kind {adapter_type} make no embeddings")
    if declared and Capability.EMBEDDINGS not in declared:
        raise _cannot_embed("the model declares what it can, and embeddings are not among it")
    return embeddings


def _cannot_embed(message: str) -> NotCarried:
    return NotCarried(Failure(FailureKind.UNSUPPORTED, message, code=UNSUPPORTED_CONVERSION, parameter="model"))
