"""What happened: calls, the attempts behind them, the decisions that chose, and usage by day.

Rows of calls, attempts and decisions are written once and never changed; a second ``save`` is refused. They name
providers, models, configurations, applications and keys by identifier.
"""

from typing import Any, ClassVar

from django.db import models

from telemetry.querysets import CallQuerySet

DAYS_OF_HOURS = 100
"""For how long usage by hour is kept: a quarter of a year, and some days to look at it."""


class WrittenOnceError(RuntimeError):
    """An attempt to change a row that is written once."""


class WrittenOnce(models.Model):
    """A row that refuses a second save."""

    class Meta:
        abstract = True

    def save(self, **kwargs: Any) -> None:
        if not self._state.adding:
            raise WrittenOnceError(f"{type(self).__name__} {self.pk} is written once and cannot be changed")
        super().save(**{**kwargs, "force_insert": True})  # a new object must not replace the row of its key


class DecisionRecord(WrittenOnce):
    """A whole decision, stored once per distinct content under its digest."""

    digest = models.CharField(max_length=64, primary_key=True)
    document = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.digest[:12]


class Call(WrittenOnce):
    """One call. ``NULL`` is "not measured" or "not reported" and never means zero."""

    id = models.UUIDField(primary_key=True)
    started_at = models.DateTimeField()

    requested = models.CharField(max_length=300)
    operation = models.CharField(max_length=32)
    streamed = models.BooleanField(default=False)
    application = models.CharField(max_length=100)
    key = models.CharField(max_length=64)
    user = models.CharField(max_length=128, blank=True)
    source = models.CharField(max_length=64, blank=True)

    first_provider = models.CharField(max_length=100, blank=True)
    first_adapter_type = models.CharField(max_length=50, blank=True)
    first_model = models.CharField(max_length=100, blank=True)
    first_model_id = models.CharField(max_length=150, blank=True)
    first_failure_kind = models.CharField(max_length=20, blank=True)
    served_configuration = models.CharField(max_length=100, blank=True)
    served_provider = models.CharField(max_length=100, blank=True)
    served_adapter_type = models.CharField(max_length=50, blank=True)
    served_model = models.CharField(max_length=100, blank=True)
    served_model_id = models.CharField(max_length=150, blank=True)
    response_model = models.CharField(max_length=150, blank=True)
    requested_tier = models.CharField(max_length=20, blank=True, default="", db_default="")
    served_tier = models.CharField(max_length=20, blank=True, default="", db_default="")

    success = models.BooleanField()
    failure_kind = models.CharField(max_length=20, blank=True)
    error_class = models.CharField(max_length=100, blank=True)
    latency_ms = models.FloatField()
    first_token_ms = models.FloatField(null=True)
    cache_hit = models.BooleanField(default=False)
    replay_of = models.UUIDField(null=True)
    fallback_attempts = models.PositiveSmallIntegerField(default=0)
    retries = models.PositiveSmallIntegerField(default=0)
    requests_sent = models.PositiveSmallIntegerField(default=0)

    policy_mode = models.CharField(max_length=32, blank=True)
    candidates = models.PositiveSmallIntegerField(null=True)
    rejection_reasons = models.CharField(max_length=300, blank=True)
    preference = models.CharField(max_length=120, blank=True)
    routing_signal_quality = models.BooleanField(default=False)
    routing_signal_health = models.BooleanField(default=False)
    routing_signal_cost = models.BooleanField(default=False)
    routing_signal_latency = models.BooleanField(default=False)
    routing_signal_call_cost = models.BooleanField(default=False)
    decision = models.ForeignKey(DecisionRecord, null=True, on_delete=models.PROTECT, related_name="calls")

    facts_messages = models.PositiveIntegerField(null=True)
    facts_turns = models.PositiveIntegerField(null=True)
    facts_tools = models.PositiveIntegerField(null=True)
    facts_payload_bytes = models.PositiveIntegerField(null=True)
    facts_token_estimate = models.PositiveIntegerField(null=True)
    facts_shape = models.CharField(max_length=20, blank=True)
    complexity_score = models.PositiveSmallIntegerField(null=True)
    context_percent = models.PositiveIntegerField(null=True)

    actual_input_tokens = models.PositiveIntegerField(null=True)
    actual_cache_read_tokens = models.PositiveIntegerField(null=True)
    actual_cache_write_tokens = models.PositiveIntegerField(null=True)
    actual_output_tokens = models.PositiveIntegerField(null=True)
    actual_reasoning_tokens = models.PositiveIntegerField(null=True)
    usage_coverage = models.CharField(max_length=10, default="absent")
    actual_cost_nanos = models.BigIntegerField(null=True)
    cost_currency = models.CharField(max_length=3, blank=True)

    objects = CallQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["-started_at", "-pk"]
        indexes: ClassVar = [
            models.Index(fields=["-started_at"], name="telemetry_call_latest"),
            # The pages' filters, each in the order of the list.
            models.Index(fields=["application", "-started_at"], name="telemetry_call_application"),
            models.Index(fields=["requested", "-started_at"], name="telemetry_call_requested"),
            models.Index(fields=["served_model", "-started_at"], name="telemetry_call_model"),
            models.Index(fields=["-started_at"], condition=models.Q(success=False), name="telemetry_call_failed"),
            # Decided calls: the latest ones however many were not decided, and what moved them without the table.
            models.Index(
                fields=["-started_at"],
                include=[
                    "requested", "operation", "policy_mode", "routing_signal_quality", "routing_signal_health",
                    "routing_signal_cost", "routing_signal_latency", "routing_signal_call_cost",
                ],
                condition=~models.Q(policy_mode=""),
                name="telemetry_call_decided",
            ),
            # Serves the history's GROUP BY without touching the table, where the database can.
            models.Index(
                fields=["started_at"],
                include=[
                    "served_adapter_type", "served_model_id", "operation", "latency_ms",
                    "actual_cost_nanos", "cost_currency", "usage_coverage",
                ],
                condition=models.Q(success=True, fallback_attempts=0, cache_hit=False),
                name="telemetry_call_history",
            ),
        ]  # fmt: skip

    def __str__(self) -> str:
        return str(self.pk)


class Attempt(WrittenOnce):
    """One route of a call that took more than one request: a request sent to it, or, where there is a ``skip_reason``,
    a route that was passed over and not asked."""

    call = models.ForeignKey(Call, on_delete=models.CASCADE, related_name="attempts")
    index = models.PositiveSmallIntegerField()
    configuration = models.CharField(max_length=100, blank=True)
    provider = models.CharField(max_length=100)
    adapter_type = models.CharField(max_length=50)
    model = models.CharField(max_length=100)
    model_id = models.CharField(max_length=150)
    started_at = models.DateTimeField()
    waited_ms = models.FloatField(default=0.0)
    latency_ms = models.FloatField()
    failure_kind = models.CharField(max_length=20, blank=True)
    error_code = models.CharField(max_length=100, blank=True)
    skip_reason = models.CharField(max_length=32, blank=True, default="", db_default="")
    output_tokens = models.PositiveIntegerField(null=True)
    cost_nanos = models.BigIntegerField(null=True)
    cost_currency = models.CharField(max_length=3, blank=True)

    class Meta:
        ordering: ClassVar = ["index", "pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["call", "index"], name="telemetry_attempt_once"),
        ]

    def __str__(self) -> str:
        return f"{self.call_id} #{self.index}"


class Outcome(WrittenOnce):
    """What became of a call's answer, as the caller says: a row for each report, of which the latest stands."""

    call = models.ForeignKey(Call, on_delete=models.CASCADE, related_name="outcomes")
    judgement = models.CharField(max_length=20)
    key = models.CharField(max_length=64)
    reported_at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["-pk"]

    def __str__(self) -> str:
        return f"{self.call_id}: {self.judgement}"


class UsageSums(models.Model):
    """What was used by one combination of who asked and what served, over some time. Written by one upsert."""

    application = models.CharField(max_length=100)
    key = models.CharField(max_length=64)
    user = models.CharField(max_length=128)
    source = models.CharField(max_length=64)
    configuration = models.CharField(max_length=100)
    provider = models.CharField(max_length=100)
    model = models.CharField(max_length=100)
    operation = models.CharField(max_length=32)
    currency = models.CharField(max_length=3)

    requests = models.PositiveBigIntegerField(default=0)
    failures = models.PositiveBigIntegerField(default=0)
    input_tokens = models.PositiveBigIntegerField(default=0)
    cache_read_tokens = models.PositiveBigIntegerField(default=0)
    cache_write_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    reasoning_tokens = models.PositiveBigIntegerField(default=0)
    cost_nanos = models.BigIntegerField(default=0)
    unpriced_requests = models.PositiveBigIntegerField(default=0)

    class Meta:
        abstract = True


_COMBINATION = ["application", "key", "user", "source", "configuration", "provider", "model", "operation", "currency"]


class UsageDay(UsageSums):
    """Usage of one UTC day."""

    day = models.DateField()

    class Meta:
        ordering: ClassVar = ["-day", "pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["day", *_COMBINATION], name="telemetry_usage_day_once"),
        ]

    def __str__(self) -> str:
        return f"{self.day} {self.application} {self.model}"


class UsageHour(UsageSums):
    """Usage of one UTC hour, from which the days of a time zone are made. Kept for a while only."""

    hour = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["-hour", "pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["hour", *_COMBINATION], name="telemetry_usage_hour_once"),
        ]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H:00} {self.application} {self.model}"
