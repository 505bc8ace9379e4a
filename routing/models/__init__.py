"""The catalogue's records: providers, models with dated prices, configurations and measured quality."""

from routing.models.configuration import SELECTIONS, Configuration, FallbackLink, ListedModel
from routing.models.evaluation import DETERMINISTIC, EvaluationResult
from routing.models.language_model import LanguageModel, Price
from routing.models.provider import CatalogueVersion, Provider
from routing.models.versions import NamedRecord, VersionCounter, VersionedRecord

__all__ = [
    "DETERMINISTIC",
    "SELECTIONS",
    "CatalogueVersion",
    "Configuration",
    "EvaluationResult",
    "FallbackLink",
    "LanguageModel",
    "ListedModel",
    "NamedRecord",
    "Price",
    "Provider",
    "VersionCounter",
    "VersionedRecord",
]
