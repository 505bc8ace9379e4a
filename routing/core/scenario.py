"""A decision on paper: a scenario file turned into the arguments of ``decide``, and checked against itself.

Operators keep what they expect of a policy as files and test it in their own CI with ``manage.py explain``. An
unknown key or word is an error that names the field: a scenario that is half understood would prove nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from routing.core.catalogue import DEFAULT_PRIORITY, Catalogue, ModelSpec, ProviderSpec
from routing.core.configuration import ConfigurationSpec, Criteria
from routing.core.decision import Decision, decide
from routing.core.fields import FieldError, Fields, as_number, parse, shown
from routing.core.money import Money
from routing.core.policy import PolicyMode, RoutingPolicy
from routing.core.pricing import Price, Rates
from routing.core.requirements import Limits, Requirements
from routing.core.signals import Figures, HealthFigure, HistoryFigure
from routing.core.tiers import BudgetTier, substitutes
from routing.core.transcript import outline
from routing.core.vocabulary import (
    DataBoundary,
    Enforcement,
    ListedOrder,
    Operation,
    Reach,
    Selection,
    SignalName,
)

_MOMENT = datetime(2000, 1, 1, tzinfo=UTC)  # a scenario's prices are simply in force
_TOLERANCE = 1e-4  # an expected figure may be written with four decimals

_TOP = frozenset(
    {"mode", "call_history", "operation", "criteria", "models", "expect", "selection", "order", "enforcement",
     "telemetry", "reach", "boundary", "region", "estimated_tokens", "allowed_models", "budget_targets",
     "budget_tiers", "currency", "description"}
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
_TIER = frozenset({"budget", "threshold", "percent", "targets", "strict"})
_HEALTH = frozenset({"samples", "successes", "mean_latency_ms"})
_HISTORY = frozenset({"calls", "mean_latency_ms", "priced_calls", "mean_cost_usd", "mean_cost", "currency"})

_EXPECTATION = frozenset({"selected", "order", "state", "mode", "basis", "signals_used", "candidates"})
_EXPECTED_CANDIDATE = frozenset({"identifier", "score", "signals", "reason", "detail", "observed"})


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
    try:
        return _read(content)
    except FieldError as error:
        raise ScenarioError(str(error)) from error


def load_scenario(text: str) -> Scenario:
    """Read the text of a scenario file.

    Raises:
        ScenarioError: as :func:`read_scenario`, or the text is no JSON, or a key is written twice.
    """
    try:
        return _read(parse(text))
    except FieldError as error:
        raise ScenarioError(str(error)) from error


def _read(content: object) -> Scenario:
    top = Fields(content, "", _TOP)
    top.text("description", "")
    currency = top.text("currency", "USD")
    criteria, needs = _criteria(top.fields("criteria", _CRITERIA))
    models = [_model(each, currency) for each in top.records("models", _MODEL)]
    identifiers = [model.identifier for model, _ in models]
    for index, identifier in enumerate(identifiers):
        if identifier in identifiers[:index]:
            raise FieldError(f"models[{index}].identifier: {shown(identifier)} is the name of two models")
    operation = top.word("operation", Operation, None)
    selection = top.word("selection", Selection, Selection.CRITERIA)
    tiers = _tiers(top)
    named = _named(selection, identifiers, tiers)
    return Scenario(
        configuration=ConfigurationSpec(
            identifier="scenario",
            selection=selection,
            models=named,
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
            tiers=tiers,
            internal_only=top.only("boundary", DataBoundary.INTERNAL),
            on_device=top.only("reach", Reach.SELF_HOSTED),
            regions=_regions(top),
        ),
        policy=RoutingPolicy(
            mode=top.word("mode", PolicyMode, PolicyMode.PROVIDER_PRIORITY),
            call_history=top.flag("call_history", False),
            enforcement=top.word("enforcement", Enforcement, Enforcement.ENFORCE),
            currency=currency,
            telemetry=top.flag("telemetry", True),
        ),
        figures=_figures(models, operation, currency),
        expect=_expectation(top, identifiers),
    )


def differences(expected: Mapping[str, Any], decision: Decision) -> list[str]:
    """Where a decision's outline departs from what a scenario expects, one readable line each.

    Only what ``expected`` names is compared. ``candidates`` is a list of objects with an ``identifier``, compared
    field by field and in any order; numbers agree within 0.0001.
    """
    actual = outline(decision)
    by_name = {each["identifier"]: each for each in actual["candidates"]}
    lines: list[str] = []
    for key, value in expected.items():
        if key == "candidates" and isinstance(value, list):
            for each in value:
                name = each["identifier"]
                lines += _differences(each, by_name.get(name, {}), f"candidates[{name}]")
        else:
            lines += _differences(value, actual.get(key), key)
    return lines


def _differences(expected: object, actual: object, path: str) -> list[str]:
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return [
            line for key, value in expected.items() for line in _differences(value, actual.get(key), f"{path}.{key}")
        ]
    wanted, found = as_number(expected), as_number(actual)
    close = wanted is not None and found is not None and abs(wanted - found) <= _TOLERANCE
    return [] if close or expected == actual else [f"{path}: expected {shown(expected)}, got {shown(actual)}"]


def _expectation(top: Fields, identifiers: list[str]) -> Mapping[str, Any] | None:
    """What a scenario expects, as written; a field that no outcome has is an error, as everywhere."""
    if not top.has("expect"):
        return None
    expect = top.fields("expect", _EXPECTATION)
    for each in expect.records("candidates", _EXPECTED_CANDIDATE) if expect.has("candidates") else ():
        if each.text("identifier", "") not in identifiers:
            raise each.wrong("identifier", "the identifier of a model")
        each.fields("signals", frozenset(SignalName))
    content = top.value("expect")
    return content if isinstance(content, Mapping) else None


def _criteria(fields: Fields) -> tuple[Criteria, frozenset[str]]:
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


def _model(fields: Fields, currency: str) -> tuple[ModelSpec, Fields]:
    if not fields.has("identifier"):
        raise FieldError(f"{fields.where('identifier')}: every model needs an identifier")
    identifier = fields.text("identifier", "")
    adapter_type = fields.text("adapter_type", "")
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
                priority=fields.whole("provider_priority", DEFAULT_PRIORITY, most=100),
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


def _figures(models: list[tuple[ModelSpec, Fields]], operation: Operation | None, currency: str) -> Figures:
    quality: dict[str, float] = {}
    health: dict[str, HealthFigure] = {}
    history: dict[str, HistoryFigure] = {}
    failures: dict[str, int] = {}
    for model, fields in models:
        score = fields.number("quality", most=1)
        if score is not None:
            quality[model.identifier] = score
        if fields.has("health"):
            health[model.identifier] = _health(fields.fields("health", _HEALTH))
        if fields.has("history"):
            history[model.identifier] = _history(fields.fields("history", _HISTORY), currency)
        failures[model.identifier] = fields.whole("consecutive_failures", 0)
    by_operation = {} if operation is None else {operation: history}
    return Figures(quality=quality, health=health, history=by_operation, failures_in_a_row=failures)


def _health(fields: Fields) -> HealthFigure:
    samples, successes = fields.whole("samples", 0), fields.whole("successes", 0)
    if successes > samples:
        raise fields.wrong("successes", f"a whole number from 0 to {samples}, the samples,")
    return HealthFigure(samples=samples, successes=successes, mean_latency_ms=fields.number("mean_latency_ms"))


def _history(fields: Fields, currency: str) -> HistoryFigure:
    if fields.has("mean_cost_usd"):
        if fields.has("mean_cost"):
            raise FieldError(f"{fields.where('mean_cost')}: mean_cost_usd says it already")
        nanos, currency = fields.nanos("mean_cost_usd"), "USD"
    else:
        nanos, currency = fields.nanos("mean_cost"), fields.text("currency", currency)
    return HistoryFigure(
        calls=fields.whole("calls", 0),
        mean_latency_ms=fields.number("mean_latency_ms"),
        priced_calls=fields.whole("priced_calls", 0),
        mean_cost=None if nanos is None else Money(nanos, currency),
    )


def _targets(fields: Fields) -> tuple[frozenset[str], ...]:
    """Strict tiers: a list of names is one tier, a list of lists one tier each, an empty list none."""
    value = fields.value("budget_targets")
    if isinstance(value, list) and all(isinstance(each, list) for each in value):
        each_tier = {str(index): names for index, names in enumerate(value)}
        tiers = Fields(each_tier, "budget_targets", each_tier)
        return tuple(tiers.names(index) or frozenset() for index in each_tier)
    names = fields.names("budget_targets")
    return () if names is None else (names,)


def _tiers(fields: Fields) -> tuple[BudgetTier, ...]:
    """Tiers of budgets that are in force. Without a per cent it could not be read whether they are."""
    return tuple(
        BudgetTier(
            budget=tier.text("budget", ""),
            threshold=tier.whole("threshold", 100, most=100),
            percent=tier.whole("percent", None, most=100),
            targets=tuple(_in_order(tier, "targets")),
            is_strict=tier.flag("strict", False),
        )
        for tier in (fields.records("budget_tiers", _TIER) if fields.has("budget_tiers") else ())
    )


def _in_order(fields: Fields, name: str) -> list[str]:
    """A list of names in the order in which it is written."""
    known, value = fields.names(name) or frozenset(), fields.value(name)
    return [str(each) for each in value if each in known] if isinstance(value, list) else []


def _named(selection: Selection, identifiers: list[str], tiers: tuple[BudgetTier, ...]) -> tuple[str, ...]:
    """The models that the configuration names. Of a fixed one that is the first; others are targets of tiers."""
    if selection is Selection.CRITERIA:
        return ()
    if selection is Selection.LISTED:
        return tuple(identifiers)
    others = [each for each in identifiers[1:] if selection is Selection.OVERRIDE or each not in substitutes(tiers)]
    if others:
        raise FieldError(f"models: a selection of {selection.value} names one model, not {len(others) + 1}")
    return tuple(identifiers[:1])


def _regions(fields: Fields) -> frozenset[str] | None:
    if isinstance(fields.value("region"), str):
        return frozenset({fields.text("region", "")})
    return fields.names("region")
