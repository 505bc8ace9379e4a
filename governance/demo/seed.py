"""Makes the demo's records and its past, and brings the past up to now at every start.

What is there is left alone, since a visitor may have changed it; what is missing is made; only the providers' address
and key are always put right, because the simulator decides them. All of it is one transaction that begins with the
versions, the first locks of every writer: of two that seed at once, the second finds everything done.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Max, Min, Sum

from budgets.scopes import BudgetSpec
from governance.access.keys import digest_of
from governance.audit.actions import Author, Channel
from governance.changes.door import begin
from governance.changes.keys import issue_key, revoke_key
from governance.changes.providers import save_provider
from governance.changes.records import save_evaluation, save_record
from governance.changes.settings import store_setting
from governance.demo import cast
from governance.demo.chronicle import calls_between
from governance.demo.world import World
from governance.models import AccessKey, Application, Budget, BudgetTier, SettingValue
from governance.settings_store.registry import POLICY_MODE, Setting
from governance.settings_store.sources import pinned_settings
from governance.settings_store.store import load_settings
from routing.core.money import NANOS
from routing.core.policy import PolicyMode
from routing.credentials import read_key
from routing.models import (
    Configuration,
    EvaluationResult,
    FallbackLink,
    LanguageModel,
    ListedModel,
    Price,
    Provider,
)
from routing.snapshots import load_snapshot
from routing.vault import Vault, VaultError
from telemetry.models import Call
from telemetry.recorder import Recorder

LENGTH = timedelta(days=30)
"""How far back the demo remembers."""

SIMULATOR_KEY = "sk-simulated-providers-ask-for-this"
"""The key that the simulator asks for. It opens nothing else."""

AUTHOR = Author("manage.py demo", Channel.DEMO)

_FLUSH_AFTER = 2000
_CENT = NANOS // 100


class SeedConflict(Exception):
    """A record that is not the demo's bears a name that the demo needs."""


@dataclass(frozen=True, slots=True)
class Seeded:
    """What a seeding did.

    Attributes:
        is_first: whether the demo was not there before.
        started: when it was first seeded.
        calls: calls added now.
        keys: secrets of the demo's keys, by application.
    """

    is_first: bool
    started: datetime
    calls: int
    keys: dict[str, str]


def seed(
    *,
    now: datetime,
    simulator: str,
    vault: Vault,
    keys: Mapping[str, str] | None = None,
    set_policy: bool = True,
    length: timedelta = LENGTH,
) -> Seeded:
    """Make what is missing of the demo and bring its past up to ``now``.

    Args:
        now: the end of the past.
        simulator: where the simulated providers are, without a trailing slash.
        vault: seals the providers' key.
        keys: the secrets of keys made earlier, by application; a key whose secret is lost is made anew.
        set_policy: whether the installation's policy mode is the demo's to set, at its first seeding.
        length: how far back to begin where there is no past yet.

    Raises:
        SeedConflict: a name is taken by a record that is not the demo's.
    """
    with transaction.atomic():
        begin()
        first_run = EvaluationResult.objects.filter(source=cast.SOURCE).aggregate(at=Min("run_at"))["at"]
        started: datetime = now if first_run is None else first_run + timedelta(days=cast.EVALUATED_DAYS)
        _make_providers(simulator=simulator, vault=vault)
        _make_models(started=started)
        _make_configurations()
        secrets, key_ids = _make_keys(dict(keys or {}))
        if first_run is None and set_policy and _is_open(POLICY_MODE):
            store_setting(POLICY_MODE.key, PolicyMode.BALANCED.value, author=AUTHOR)
        world = World(snapshot=load_snapshot(), settings=load_settings(), keys=key_ids, started=started)
        calls = _top_up(world, now=now, length=length)
        _make_budgets()
    return Seeded(is_first=first_run is None, started=started, calls=calls, keys=secrets)


def _is_open(setting: Setting[Any]) -> bool:
    """Whether nobody has said yet what a setting shall be, in the database or in the environment."""
    return setting.key not in pinned_settings() and not SettingValue.objects.filter(key=setting.key).exists()


def _top_up(world: World, *, now: datetime, length: timedelta) -> int:
    """Add the calls since the last one of the demo, seeded or real; gives their number."""
    latest: datetime | None = Call.objects.filter(source=cast.SOURCE, started_at__lte=now).aggregate(
        at=Max("started_at")
    )["at"]
    start = now - length if latest is None else max(latest, now - length)
    recorder, count = Recorder(), 0
    for count, record in enumerate(calls_between(start, now, world=world), start=1):
        recorder.append(record)
        if count % _FLUSH_AFTER == 0:
            recorder.flush()
    recorder.flush()
    return count


def _make_providers(*, simulator: str, vault: Vault) -> None:
    for each in cast.PROVIDERS:
        spec, base_url = each.spec, f"{simulator}/{each.path}/v1"
        provider = _found(Provider, spec.identifier)
        if provider is None:
            provider = Provider(
                identifier=spec.identifier,
                name=spec.name,
                adapter_type=spec.adapter_type,
                reach=spec.reach.value,
                data_boundary=spec.data_boundary.value,
                region=spec.region,
                priority=spec.priority,
                source=cast.SOURCE,
            )
        key = None if _opens(provider, vault) else SIMULATOR_KEY
        if provider.base_url != base_url or key is not None:
            provider.base_url = base_url
            save_provider(provider, author=AUTHOR, vault=vault, key=key)


def _opens(provider: Provider, vault: Vault) -> bool:
    try:
        return read_key(provider, vault=vault) == SIMULATOR_KEY
    except VaultError:
        return False


def _make_models(*, started: datetime) -> None:
    """Models. Their prices and scores are made with them, or not at all: a visitor may have taken some away."""
    for each in cast.MODELS:
        spec = each.spec
        if _found(LanguageModel, spec.identifier) is not None:
            continue
        model = LanguageModel(
            identifier=spec.identifier,
            name=spec.name,
            provider=Provider.objects.get(identifier=spec.provider.identifier),
            model_id=spec.model_id,
            capabilities=sorted(spec.capabilities),
            context_length=spec.context_length or 0,
            max_output=spec.max_output or 0,
            is_default=spec.is_default,
            sorting=spec.sorting,
            source=cast.SOURCE,
        )
        prices = [
            Price(
                model=model,
                valid_from=price.valid_from,
                currency=price.currency,
                input_rate=price.rates.input,
                output_rate=price.rates.output,
                cached_input_rate=price.rates.cached_input,
                provenance=cast.SOURCE,
            )
            for price in each.prices(started=started)
        ]
        save_record(model, parts=prices, author=AUTHOR)
        for golden_set, score in each.scores.items():
            result = EvaluationResult(
                model=model,
                golden_set=golden_set,
                prompt_count=40,
                mean_score=score,
                run_at=started - timedelta(days=cast.EVALUATED_DAYS),
                source=cast.SOURCE,
            )
            save_evaluation(result, author=AUTHOR)


def _make_configurations() -> None:
    made: list[cast.DemoConfiguration] = []
    for each in cast.CONFIGURATIONS:
        spec, criteria = each.spec, each.spec.criteria
        if _found(Configuration, spec.identifier) is not None:
            continue
        models = [LanguageModel.objects.get(identifier=name) for name in spec.models]
        configuration = Configuration(
            identifier=spec.identifier,
            name=each.name,
            description=each.description,
            selection=spec.selection.value,
            fixed_model=models[0] if spec.selection.value == "fixed" else None,
            listed_order=spec.order.value,
            policy_mode="" if spec.policy_mode is None else spec.policy_mode.value,
            capabilities=list(criteria.capabilities),
            adapter_types=list(criteria.adapter_types),
            min_context_length=criteria.min_context_length,
            max_input_rate=criteria.max_cost_input,
            prefer_lowest_cost=criteria.prefer_lowest_cost,
            plan_limit=spec.plan_limit,
            repairs_output=spec.repairs_output,
            repeats_timeouts=spec.repeats_timeouts,
            cache_seconds=spec.cache_seconds,
            source=cast.SOURCE,
        )
        listed = models if spec.selection.value == "listed" else []
        places = [ListedModel(configuration=configuration, model=model, position=at) for at, model in enumerate(listed)]
        save_record(configuration, parts=places, author=AUTHOR)
        made.append(each)
    for each in made:
        configuration = Configuration.objects.get(identifier=each.spec.identifier)
        fallbacks = [Configuration.objects.get(identifier=name) for name in each.spec.fallbacks]
        links = [
            FallbackLink(configuration=configuration, fallback=fallback, position=at)
            for at, fallback in enumerate(fallbacks)
        ]
        if links:
            save_record(configuration, parts=links, author=AUTHOR)


def _make_keys(known: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """One key for each application; gives secrets and ids by application. A key whose secret is lost is revoked."""
    secrets: dict[str, str] = {}
    ids: dict[str, str] = {}
    for each in cast.APPLICATIONS:
        application = _found(Application, each.identifier)
        if application is None:
            application = Application(
                identifier=each.identifier, name=each.name, description=each.description, source=cast.SOURCE
            )
            save_record(application, author=AUTHOR)
        living = AccessKey.objects.filter(application=application, source=cast.SOURCE, revoked_at=None)
        secret = known.get(each.identifier, "")
        key = living.filter(secret_digest=digest_of(secret)).first()
        if key is None:
            for lost in living:
                revoke_key(lost, author=AUTHOR, reason="Its secret is lost.")
            key = AccessKey(
                application=application,
                name="The demo's own",
                allowed_configurations=None if each.configurations is None else list(each.configurations),
                may_name_models=each.may_name_models,
                source=cast.SOURCE,
            )
            secret = issue_key(key, author=AUTHOR)
        secrets[each.identifier], ids[each.identifier] = secret, str(key.pk)
    return secrets, ids


def _make_budgets() -> None:
    """Budgets, once there is a past that limits can follow from."""
    for each in cast.BUDGETS:
        spec = each.spec
        if _found(Budget, spec.identifier) is not None:
            continue
        budget = Budget(
            identifier=spec.identifier,
            name=each.name,
            **spec.scope.document,
            currency=spec.currency,
            limit=spec.limit if each.spent_percent is None else _limit_of(spec, percent=each.spent_percent),
            is_hard=spec.is_hard,
            window=spec.window.value,
            zone=spec.zone,
            unpriced=spec.unpriced.value,
            alert_thresholds=list(spec.alerts),
            enforce_targets=spec.enforces_targets,
            source=cast.SOURCE,
        )
        ladder = [
            BudgetTier(budget=budget, threshold=tier.threshold, model=model, position=position)
            for tier in spec.tiers
            for position, model in enumerate(tier.targets)
        ]
        save_record(budget, parts=ladder, author=AUTHOR)


def _limit_of(spec: BudgetSpec, *, percent: int) -> int:
    """The limit of which the application has spent about so much, to the next cent."""
    calls = Call.objects.filter(
        source=cast.SOURCE, application=spec.scope.application, cost_currency=spec.currency
    ).order_by()
    spent: int = calls.aggregate(spent=Sum("actual_cost_nanos"))["spent"] or 0
    return -(-spent * 100 // percent // _CENT) * _CENT or spec.limit


def _found(kind: type[Any], identifier: str) -> Any:
    """The demo's record of that name, or ``None``."""
    record = kind.objects.filter(identifier=identifier).first()
    if record is not None and record.source != cast.SOURCE:
        raise SeedConflict(
            f"there is a {kind._meta.verbose_name} {identifier} that is not the demo's; the demo needs that name"
        )
    return record
