"""Records for tests, each valid as it is.

Every two namespaces get different values, since the fault that shared strings hide (a provider looked up by its
adapter type, a model by the id sent upstream) is the commonest one. Identifiers are the plain word while it is
free, then the word with a number: ``prod-east``, ``prod-east-2``.

They save past the one door for changes: what is there before a test begins is nobody's change, and tests of the audit
trail begin with an empty one.
"""

# factory_boy's declarations are untyped:
# mypy: disable-error-code="no-untyped-call, untyped-decorator"

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db import models
from factory.base import Factory
from factory.declarations import LazyFunction, RelatedFactory, Sequence, SubFactory, Trait
from factory.django import DjangoModelFactory
from factory.helpers import post_generation

from governance.access.keys import give_secret
from governance.models import AccessKey, Application, Budget, Webhook
from routing.core.vocabulary import Selection
from routing.models import (
    Configuration,
    EvaluationResult,
    FallbackLink,
    LanguageModel,
    ListedModel,
    Price,
    Provider,
)
from telemetry.models import Attempt, Call, DecisionRecord, UsageDay, UsageHour
from telemetry.records import new_call_id

LONG_AGO = datetime(2025, 1, 1, tzinfo=UTC)
RECENTLY = datetime(2026, 11, 29, 12, tzinfo=UTC)


def free_identifier(model: type[models.Model], word: str) -> str:
    """The word, or the word with the first number that no record has."""
    rows = model._default_manager.filter(identifier__startswith=word)
    taken = set(rows.values_list("identifier", flat=True))
    number, identifier = 1, word
    while identifier in taken:
        number += 1
        identifier = f"{word}-{number}"
    return identifier


class ProviderFactory(DjangoModelFactory[Provider]):
    class Meta:
        model = Provider

    identifier = LazyFunction(lambda: free_identifier(Provider, "prod-east"))
    name = "Production, east"
    adapter_type = "openai"
    base_url = "https://llm.example.com/v1"
    region = "eu-central"


class LanguageModelFactory(DjangoModelFactory[LanguageModel]):
    """Unpriced, and with capabilities declared. ``priced=True`` adds a price of 2.50 and 10.00 USD."""

    class Meta:
        model = LanguageModel
        skip_postgeneration_save = True

    class Params:
        priced = Trait(price=RelatedFactory("tests.factories.PriceFactory", factory_related_name="model"))

    identifier = LazyFunction(lambda: free_identifier(LanguageModel, "fast"))
    name = "Fast and small"
    provider = SubFactory(ProviderFactory)
    model_id = "gpt-x-mini"
    capabilities = LazyFunction(lambda: ["chat", "tools"])
    context_length = 128_000
    max_output = 16_000


class PriceFactory(DjangoModelFactory[Price]):
    class Meta:
        model = Price

    model = SubFactory(LanguageModelFactory)
    valid_from = LONG_AGO
    currency = "USD"
    input_rate = 2_500_000_000
    output_rate = 10_000_000_000
    provenance = "price-list"


class ConfigurationFactory(DjangoModelFactory[Configuration]):
    """Selects by criteria. ``fixed=True`` names a model; ``listed=True`` lists ``models``, or two made for it."""

    class Meta:
        model = Configuration
        skip_postgeneration_save = True

    class Params:
        criteria = Trait(selection=Selection.CRITERIA.value)
        fixed = Trait(selection=Selection.FIXED.value, fixed_model=SubFactory(LanguageModelFactory))
        listed = Trait(selection=Selection.LISTED.value)

    identifier = LazyFunction(lambda: free_identifier(Configuration, "support-chat"))
    name = "Chat for support"
    selection = Selection.CRITERIA.value

    @post_generation
    def models(self: Configuration, create: bool, extracted: Iterable[LanguageModel] | None, **_: Any) -> None:
        """The listed models, in order."""
        if not create or self.selection != Selection.LISTED:
            return
        for position, model in enumerate(LanguageModelFactory.create_batch(2) if extracted is None else extracted):
            ListedModel.objects.create(configuration=self, model=model, position=position)


class FallbackLinkFactory(DjangoModelFactory[FallbackLink]):
    class Meta:
        model = FallbackLink

    configuration = SubFactory(ConfigurationFactory)
    fallback = SubFactory(
        ConfigurationFactory,
        identifier=LazyFunction(lambda: free_identifier(Configuration, "plain-chat")),
        name="Chat of last resort",
    )


class EvaluationResultFactory(DjangoModelFactory[EvaluationResult]):
    class Meta:
        model = EvaluationResult

    model = SubFactory(LanguageModelFactory)
    golden_set = "refund-questions"
    prompt_count = 20
    mean_score = 0.8
    run_at = RECENTLY


class ApplicationFactory(DjangoModelFactory[Application]):
    class Meta:
        model = Application

    identifier = LazyFunction(lambda: free_identifier(Application, "helpdesk"))
    name = "The help desk"


class BudgetFactory(DjangoModelFactory[Budget]):
    """A hard limit of ten dollars for the help desk, by calendar month in Berlin."""

    class Meta:
        model = Budget

    identifier = LazyFunction(lambda: free_identifier(Budget, "desk-month"))
    name = "The help desk's month"
    application = "helpdesk"
    currency = "USD"
    limit = 10_000_000_000
    zone = "Europe/Berlin"


class WebhookFactory(DjangoModelFactory[Webhook]):
    """A webhook without a secret."""

    class Meta:
        model = Webhook

    identifier = LazyFunction(lambda: free_identifier(Webhook, "pager"))
    url = "https://alerts.example.com/signalbox"


class IssuedKey(NamedTuple):
    """A key's record and the secret that only its maker sees."""

    record: AccessKey
    secret: str


class AccessKeyFactory(Factory[IssuedKey]):
    """``AccessKeyFactory()`` gives record and secret."""

    class Meta:
        model = IssuedKey

    application = SubFactory(ApplicationFactory)
    name = "Ticket robot"

    @classmethod
    def _create(cls, model_class: type[IssuedKey], *args: Any, **kwargs: Any) -> IssuedKey:
        key = AccessKey(**kwargs)
        secret = give_secret(key)
        key.save()
        return model_class(key, secret)


class DecisionRecordFactory(DjangoModelFactory[DecisionRecord]):
    """A document that is none; pass one that was decided where its content matters."""

    class Meta:
        model = DecisionRecord

    digest = Sequence(lambda number: f"{number:064x}")
    document = LazyFunction(lambda: {"version": 0})


class CallFactory(DjangoModelFactory[Call]):
    """A call that the first route served, with usage reported exactly."""

    class Meta:
        model = Call

    id = LazyFunction(new_call_id)
    started_at = RECENTLY
    requested = "support-chat"
    operation = "chat"
    application = "helpdesk"
    key = "5f0c7c0e-9b7e-4a44-a1bd-0f6f3a7b9d21"
    user = "agent-17"
    source = "web-shop"
    first_provider = "prod-east"
    first_adapter_type = "openai"
    first_model = "fast"
    first_model_id = "gpt-x-mini"
    served_configuration = "support-chat"
    served_provider = "prod-east"
    served_adapter_type = "openai"
    served_model = "fast"
    served_model_id = "gpt-x-mini"
    response_model = "gpt-x-mini-2026-05-01"
    success = True
    latency_ms = 812.5
    requests_sent = 1
    policy_mode = "balanced"
    candidates = 3
    usage_coverage = "exact"
    actual_input_tokens = 1200
    actual_cache_read_tokens = 0
    actual_cache_write_tokens = 0
    actual_output_tokens = 340
    actual_reasoning_tokens = 0
    actual_cost_nanos = 6_400_000
    cost_currency = "USD"


class AttemptFactory(DjangoModelFactory[Attempt]):
    class Meta:
        model = Attempt

    call = SubFactory(CallFactory)
    index = 0
    configuration = "support-chat"
    provider = "prod-east"
    adapter_type = "openai"
    model = "fast"
    model_id = "gpt-x-mini"
    started_at = RECENTLY
    latency_ms = 120.0


class UsageSumsFactory(DjangoModelFactory[Any]):
    class Meta:
        abstract = True

    application = "helpdesk"
    key = "5f0c7c0e-9b7e-4a44-a1bd-0f6f3a7b9d21"
    user = Sequence(lambda number: f"agent-{number}")
    source = "web-shop"
    configuration = "support-chat"
    provider = "prod-east"
    model = "fast"
    operation = "chat"
    currency = "USD"
    requests = 4
    input_tokens = 4800
    output_tokens = 1360
    cost_nanos = 25_600_000


class UsageDayFactory(UsageSumsFactory):
    class Meta:
        model = UsageDay

    day = RECENTLY.date()


class UsageHourFactory(UsageSumsFactory):
    class Meta:
        model = UsageHour

    hour = RECENTLY.replace(minute=0, second=0, microsecond=0)
