"""A decision on paper: a scenario file turned into the arguments of ``decide``, and checked against itself.

Operators keep what they expect of a policy as files and test it in their own CI with ``manage.py explain``. An
unknown key or word is an error that names the field: a scenario that is half understood would prove nothing.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, TypeVar

from routing.core.catalogue import DEFAULT_PRIORITY, Catalogue, ModelSpec, ProviderSpec
from routing.core.configuration import ConfigurationSpec, Criteria
from routing.core.decision import Decision, decide
from routing.core.money import Money, MoneyError, parse_nanos
from routing.core.policy import PolicyMode, RoutingPolicy
from routing.core.pricing import Price, Rates
from routing.core.requirements import Limits, Requirements
from routing.core.signals import Figures, HealthFigure, HistoryFigure
from routing.core.transcript import outline
from routing.core.vocabulary import DataBoundary, Enforcement, ListedOrder, Operation, Reach, Selection

_MOMENT = datetime(2000, 1, 1, tzinfo=UTC)  # a scenario's prices are simply in force
_TOLERANCE = 1e-4  # an expected figure may be written with four decimals

_TOP = frozenset(
    {"mode", "call_history", "operation", "criteria", "models", "expect", "selection", "order", "enforcement",
     "telemetry", "reach", "boundary", "region", "estimated_tokens", "allowed_models", "budget_targets", "currency",
     "description"}
)  # fmt: skip
_CRITERIA = frozenset(
    {"capabilities", "adapter_types", "min_context_length", "max_cost_input", "prefer_lowest_cost",
     "operation_capability"}
)  # fmt: skip
_MODEL = frozenset(
    {"identifier", "adapter_type", "provider", "model_id", "name", "provider_priority", "is_default", "sorting",
     "capabilities", "context_length", "max_output", "price_input", "price_output", "price_currency", "quality",
     "health", "history", "reach", "data_boundary", "region", "consecutive_failures"}
)  # fmt: skip
_HEALTH = frozenset({"samples", "successes", "mean_latency_ms"})
_HISTORY = frozenset({"calls", "mean_latency_ms", "priced_calls", "mean_cost_usd", "mean_cost", "currency"})

_Word = TypeVar("_Word", bound=StrEnum)


class ScenarioError(ValueError):
    """A malformed scenario; the message names the field and what would be right."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The arguments of ``decide`` as a scenario spells them, and what it expects of the outcome."""

    configuration: ConfigurationSpec
    catalogue: Catalogue
    requirements: Requirements
    limits: Limits
    policy: RoutingPolicy
    figures: Figures
    expect: Mapping[str, Any] | None = None

    def decide(self) -> Decision:
        """The decision over this scenario."""
        return decide(
            configuration=self.configuration,
            catalogue=self.catalogue,
            requirements=self.requirements,
            limits=self.limits,
            policy=self.policy,
            figures=self.figures,
            now=_MOMENT,
        )


def read_scenario(content: object) -> Scenario:
    """Read a parsed scenario file.

    Raises:
        ScenarioError: a key or a word is unknown, a value has the wrong type, or two models share a name.
    """
    top = _Fields(content, "", _TOP)
    criteria, needs = _criteria(top.fields("criteria", _CRITERIA))
    models = [_model(each, top.text("currency", "USD")) for each in top.records("models", _MODEL)]
    identifiers = [model.identifier for model, _ in models]
    if len(set(identifiers)) != len(identifiers):
        raise ScenarioError("models: two models have the same identifier")
    operation = top.word("operation", Operation, None)
    selection = top.word("selection", Selection, Selection.CRITERIA)
    if selection is not Selection.CRITERIA and selection is not Selection.LISTED and len(models) > 1:
        raise ScenarioError(f"models: a {selection.value} selection names one model, not {len(models)}")
    expect = top.value("expect")
    if expect is not None and not isinstance(expect, Mapping):
        raise ScenarioError("expect: an object is needed")
    return Scenario(
        configuration=ConfigurationSpec(
            identifier="scenario",
            selection=selection,
            models=() if selection is Selection.CRITERIA else tuple(identifiers),
            order=top.word("order", ListedOrder, ListedOrder.AS_LISTED),
            criteria=criteria,
        ),
        catalogue=Catalogue.of(model for model, _ in models),
        requirements=Requirements(
            operation=operation,
            needs=needs,
            prompt_tokens=top.whole("estimated_tokens", None),
        ),
        limits=Limits(
            allowed_models=top.names("allowed_models"),
            budget_targets=_targets(top),
            internal_only=top.only("boundary", DataBoundary.INTERNAL),
            on_device=top.only("reach", Reach.SELF_HOSTED),
            regions=_regions(top),
        ),
        policy=RoutingPolicy(
            mode=top.word("mode", PolicyMode, PolicyMode.PROVIDER_PRIORITY),
            call_history=top.flag("call_history", False),
            enforcement=top.word("enforcement", Enforcement, Enforcement.ENFORCE),
            currency=top.text("currency", "USD"),
            telemetry=top.flag("telemetry", True),
        ),
        figures=_figures(models, operation),
        expect=expect,
    )


def differences(expected: Mapping[str, Any], decision: Decision) -> list[str]:
    """Where a decision's outline departs from what a scenario expects, one readable line each.

    Only what ``expected`` names is compared. ``candidates`` may be given as a list of objects with an
    ``identifier``, compared field by field; numbers agree within 0.0001.
    """
    return _differences(expected, outline(decision), "")


def _differences(expected: object, actual: object, path: str) -> list[str]:
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        lines: list[str] = []
        for key, value in expected.items():
            where = f"{path}.{key}" if path else str(key)
            if key in actual:
                lines += _differences(value, actual[key], where)
            else:
                lines.append(f"{where}: expected {value!r}, but there is no such field")
        return lines
    if path == "candidates" and isinstance(expected, list) and isinstance(actual, list):
        by_name = {each["identifier"]: each for each in actual}
        lines = []
        for each in expected:
            name = each.get("identifier") if isinstance(each, Mapping) else None
            if name in by_name:
                lines += _differences(each, by_name[name], f"{path}[{name}]")
            else:
                lines.append(f"{path}: expected a candidate {name!r}, but there is none")
        return lines
    if _is_number(expected) and _is_number(actual):
        return [] if abs(float(expected) - float(actual)) <= _TOLERANCE else [_difference(path, expected, actual)]  # type: ignore[arg-type]
    return [] if expected == actual else [_difference(path, expected, actual)]


def _difference(path: str, expected: object, actual: object) -> str:
    return f"{path}: expected {expected!r}, got {actual!r}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class _Fields:
    """One object of a scenario: refuses unknown keys, and names the field in every complaint."""

    def __init__(self, content: object, path: str, known: Collection[str]) -> None:
        if not isinstance(content, Mapping):
            raise ScenarioError(f"{path or 'the scenario'}: an object is needed")
        unknown = sorted(str(key) for key in content if key not in known)
        if unknown:
            raise ScenarioError(f"{path + '.' if path else ''}{unknown[0]}: unknown key")
        self._content, self._path = content, path

    def where(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def value(self, key: str) -> object:
        return self._content.get(key)

    def has(self, key: str) -> bool:
        return self._content.get(key) is not None

    def fields(self, key: str, known: Collection[str]) -> "_Fields":
        value = self.value(key)
        return _Fields({} if value is None else value, self.where(key), known)

    def records(self, key: str, known: Collection[str]) -> "list[_Fields]":
        value = self.value(key)
        if not isinstance(value, list):
            raise ScenarioError(f"{self.where(key)}: a list is needed")
        return [_Fields(each, f"{self.where(key)}[{index}]", known) for index, each in enumerate(value)]

    def text(self, key: str, default: str) -> str:
        return self._typed(key, default, lambda value: isinstance(value, str), "a text")

    def flag(self, key: str, default: bool) -> bool:
        return self._typed(key, default, lambda value: isinstance(value, bool), "true or false")

    def whole(self, key: str, default: Any) -> Any:
        return self._typed(
            key,
            default,
            lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
            "a whole number from 0",
        )

    def number(self, key: str) -> float | None:
        value: object = self._typed(key, None, _is_number, "a number")
        return None if value is None else float(value)  # type: ignore[arg-type]

    def word(self, key: str, words: type[_Word], default: Any) -> Any:
        value = self.value(key)
        if value is None:
            return default
        try:
            return words(value)  # type: ignore[arg-type]
        except ValueError:
            known = ", ".join(words)
            raise ScenarioError(f"{self.where(key)}: {value!r} is none of {known}") from None

    def only(self, key: str, word: StrEnum) -> bool:
        """Whether the one demand that can be made here is made."""
        value = self.value(key)
        if value is None:
            return False
        if value != word.value:
            raise ScenarioError(f"{self.where(key)}: only {word.value!r} can be demanded, not {value!r}")
        return True

    def names(self, key: str) -> frozenset[str] | None:
        value = self.value(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ScenarioError(f"{self.where(key)}: a list of names is needed")
        return frozenset(value)

    def nanos(self, key: str) -> int | None:
        """Money, written as a text or a number; exactly as written."""
        value = self.value(key)
        if value is None:
            return None
        if not isinstance(value, str | int | float | Decimal) or isinstance(value, bool):
            raise ScenarioError(f"{self.where(key)}: an amount such as \"2.50\" is needed")
        try:
            nanos = parse_nanos(str(value))
        except MoneyError as error:
            raise ScenarioError(f"{self.where(key)}: {error}") from None
        if nanos < 0:
            raise ScenarioError(f"{self.where(key)}: an amount cannot be negative")
        return nanos

    def _typed(self, key: str, default: Any, accepts: Callable[[object], bool], wanted: str) -> Any:
        value = self.value(key)
        if value is None:
            return default
        if not accepts(value):
            raise ScenarioError(f"{self.where(key)}: {wanted} is needed, not {value!r}")
        return value


def _criteria(fields: _Fields) -> tuple[Criteria, frozenset[str]]:
    wanted = fields.value("operation_capability")
    needs = fields.names("operation_capability") if isinstance(wanted, list) else None
    if needs is None:
        needs = frozenset({fields.text("operation_capability", "")} - {""})
    return (
        Criteria(
            capabilities=tuple(sorted(fields.names("capabilities") or ())),
            adapter_types=tuple(sorted(fields.names("adapter_types") or ())),
            min_context_length=fields.whole("min_context_length", 0),
            max_cost_input=fields.nanos("max_cost_input"),
            prefer_lowest_cost=fields.flag("prefer_lowest_cost", False),
        ),
        needs,
    )


def _model(fields: _Fields, currency: str) -> tuple[ModelSpec, _Fields]:
    if not fields.has("identifier"):
        raise ScenarioError(f"{fields.where('identifier')}: every model needs an identifier")
    identifier = fields.text("identifier", "")
    adapter_type = fields.text("adapter_type", "")
    priority = fields.whole("provider_priority", DEFAULT_PRIORITY)
    if priority > 100:
        raise ScenarioError(f"{fields.where('provider_priority')}: a priority is from 0 to 100, not {priority}")
    price_input, price_output = fields.nanos("price_input"), fields.nanos("price_output")
    prices: tuple[Price, ...] = ()
    if price_input is not None and price_output is not None:
        rates = Rates(input=price_input, output=price_output)
        prices = (Price(_MOMENT, fields.text("price_currency", currency), rates),)
    return (
        ModelSpec(
            identifier=identifier,
            model_id=fields.text("model_id", identifier),
            name=fields.text("name", ""),
            provider=ProviderSpec(
                identifier=fields.text("provider", adapter_type),
                adapter_type=adapter_type,
                priority=priority,
                reach=fields.word("reach", Reach, Reach.VENDOR_API),
                data_boundary=fields.word("data_boundary", DataBoundary, DataBoundary.UNKNOWN),
                region=fields.text("region", ""),
            ),
            capabilities=frozenset(name.strip() for name in fields.names("capabilities") or ()),
            context_length=fields.whole("context_length", 0) or None,
            max_output=fields.whole("max_output", 0) or None,
            is_default=fields.flag("is_default", False),
            sorting=fields.whole("sorting", 0),
            prices=prices,
        ),
        fields,
    )


def _figures(models: list[tuple[ModelSpec, _Fields]], operation: Operation | None) -> Figures:
    quality: dict[str, float] = {}
    health: dict[str, HealthFigure] = {}
    history: dict[str, HistoryFigure] = {}
    failures: dict[str, int] = {}
    for model, fields in models:
        score = fields.number("quality")
        if score is not None:
            quality[model.identifier] = score
        if fields.has("health"):
            health[model.identifier] = _health(fields.fields("health", _HEALTH))
        if fields.has("history"):
            history[model.identifier] = _history(fields.fields("history", _HISTORY))
        failures[model.identifier] = fields.whole("consecutive_failures", 0)
    by_operation = {} if operation is None else {operation: history}
    return Figures(quality=quality, health=health, history=by_operation, failures_in_a_row=failures)


def _health(fields: _Fields) -> HealthFigure:
    samples, successes = fields.whole("samples", 0), fields.whole("successes", 0)
    if successes > samples:
        raise ScenarioError(f"{fields.where('successes')}: {successes} of {samples} samples cannot have succeeded")
    return HealthFigure(samples=samples, successes=successes, mean_latency_ms=fields.number("mean_latency_ms"))


def _history(fields: _Fields) -> HistoryFigure:
    if fields.has("mean_cost_usd"):
        nanos, currency = fields.nanos("mean_cost_usd"), "USD"
    else:
        nanos, currency = fields.nanos("mean_cost"), fields.text("currency", "USD")
    return HistoryFigure(
        calls=fields.whole("calls", 0),
        mean_latency_ms=fields.number("mean_latency_ms"),
        priced_calls=fields.whole("priced_calls", 0),
        mean_cost=None if nanos is None else Money(nanos, currency),
    )


def _targets(fields: _Fields) -> tuple[frozenset[str], ...]:
    """Strict tiers: a list of names is one tier, a list of lists one tier each."""
    value = fields.value("budget_targets")
    if isinstance(value, list) and value and all(isinstance(each, list) for each in value):
        return tuple(
            _Fields({"budget_targets": each}, "", {"budget_targets"}).names("budget_targets") or frozenset()
            for each in value
        )
    names = fields.names("budget_targets")
    return () if names is None else (names,)


def _regions(fields: _Fields) -> frozenset[str] | None:
    if isinstance(fields.value("region"), str):
        return frozenset({fields.text("region", "")})
    return fields.names("region")
