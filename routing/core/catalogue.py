"""Providers and models as values: what the decision knows of them. No keys, no rows.

A catalogue holds what is *in service*: active models of active providers. The records behind it live in
``routing.models``; ``routing.snapshots`` turns the one into the other.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from routing.core.money import Money
from routing.core.pricing import Price, upper_bound
from routing.core.requirements import Assumed, Requirements
from routing.core.vocabulary import DataBoundary, Reach

DEFAULT_PRIORITY = 50


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """Where calls go and whose key pays.

    ``adapter_type`` is the kind of API it speaks; providers of one adapter type share one health and, per model
    id, one call history. ``priority`` runs from 0 to 100, higher first.
    """

    identifier: str
    adapter_type: str
    name: str = ""
    priority: int = DEFAULT_PRIORITY
    reach: Reach = Reach.VENDOR_API
    data_boundary: DataBoundary = DataBoundary.UNKNOWN
    region: str = ""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model at a provider.

    Attributes:
        identifier: our name for it; never used again once retired.
        model_id: the id sent to the provider.
        capabilities: what the operator declares it can do; empty means undeclared.
        context_length: tokens of prompt and answer together; ``None`` if unknown.
        max_output: the most tokens it can generate; ``None`` if unknown.
        prices: all dated prices, ascending.
    """

    identifier: str
    model_id: str
    provider: ProviderSpec
    name: str = ""
    capabilities: frozenset[str] = frozenset()
    context_length: int | None = None
    max_output: int | None = None
    is_default: bool = False
    sorting: int = 0
    prices: tuple[Price, ...] = ()

    @property
    def route(self) -> str:
        """The route's name in headers, rows and messages: ``provider/model``."""
        return f"{self.provider.identifier}/{self.identifier}"

    def upper_bounds(self, price: Price, requirements: Requirements, *, assumed: Assumed) -> tuple[Money, Money]:
        """The most that one request can cost: its estimated prompt, and as much output as it allows in every answer.

        First by the standard price, then by that of the class of service asked for: either may serve. Without the
        caller's limit of output it is the model's, and without that the assumed one.
        """
        output = requirements.max_output
        if output is None:
            output = assumed.max_output if self.max_output is None else self.max_output
        prompt = self._longest_prompt(requirements, assumed)
        standard, asked = (
            upper_bound(price=each, prompt_tokens=prompt, max_output=output * requirements.choices)
            for each in (price, price.of(requirements.service_tier))
        )
        return standard, asked

    def _longest_prompt(self, requirements: Requirements, assumed: Assumed) -> int:
        """The estimated tokens of the prompt, with as many for images and files as are assumed of each. They are no
        more than fit the context beside the text."""
        text = requirements.prompt_tokens or 0
        attached = requirements.images * assumed.image_tokens + requirements.files * assumed.file_tokens
        if self.context_length is not None:
            attached = min(attached, max(0, self.context_length - text))
        return text + attached


def candidate_order(model: ModelSpec) -> tuple[int, str, str]:
    """Sort key of the order in which a criteria selection considers models."""
    return (model.sorting, model.name, model.identifier)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Every model in service, in candidate order, and the version of the records it was read from."""

    models: tuple[ModelSpec, ...]
    by_identifier: Mapping[str, ModelSpec]
    version: int = 0

    @classmethod
    def of(cls, models: Iterable[ModelSpec], *, version: int = 0) -> "Catalogue":
        """Build a catalogue from models in any order."""
        ordered = tuple(sorted(models, key=candidate_order))
        return cls(models=ordered, by_identifier={model.identifier: model for model in ordered}, version=version)

    def named(self, *, provider: str, model: str) -> ModelSpec | None:
        """The model a caller names as ``provider/model``: by our identifier, else by the provider's own id."""
        at_provider = [each for each in self.models if each.provider.identifier == provider]
        by_identifier = (each for each in at_provider if each.identifier == model)
        by_model_id = (each for each in at_provider if each.model_id == model)
        return next(by_identifier, None) or next(by_model_id, None)
