"""The test buttons: a provider lists its models, a model or a configuration answers a short question."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import orjson
from django import forms
from django.conf import settings
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse

from governance.access.directory import Caller
from governance.admin.generic import AreaWidget
from governance.admin.records import RecordAdmin, RecordTool
from governance.calls import Answer, CallOptions, Unanswered, Wanted, ask, read
from governance.gateway import home
from governance.gateway.service import Service
from governance.spelling import ABSENT, spell_cost
from routing.core.failures import FAILURES, CallFailed, Failure, FailureKind
from routing.core.vocabulary import Capability
from routing.endpoints import endpoint_of
from routing.models import LanguageModel, Provider
from routing.providers.registry import adapter_for
from routing.vault import Vault

PROMPT = "Say hello in one short sentence."

SECONDS = 120.0
"""How long a page waits."""

CALLER = Caller(
    key="",
    application="",
    allowed_configurations=None,
    allowed_models=None,
    may_name_models=True,
    expires_at=None,
    source="admin-test",
)
"""Who asks: nobody's application; what rows of these calls name as their source."""

REMEDIES: Mapping[FailureKind, str] = MappingProxyType(
    {
        FailureKind.RATE_LIMITED: "Wait and try again, or ask the provider for a higher rate.",
        FailureKind.QUOTA_EXHAUSTED: "Top up the account at the provider, or enter the key of another one.",
        FailureKind.TRANSIENT: "Check that the base URL is right and the provider is up, then try again.",
        FailureKind.TIMEOUT: "Try again; if it happens often, raise the provider's time-outs.",
        FailureKind.AUTH: "Enter a key that the provider accepts on the provider's page.",
        FailureKind.NOT_FOUND: "Compare the model id with the list that the provider's test shows, and check the "
        "base URL.",
        FailureKind.UNREADABLE: "Check that the adapter type fits the host, and that the base URL ends where its "
        "API begins.",
        FailureKind.INVALID_REQUEST: "Ask something simpler; if it still fails, the adapter type does not fit "
        "the host.",
        FailureKind.CONTEXT_EXCEEDED: "Ask something shorter, or let the configuration reach a model with a longer "
        "context.",
        FailureKind.UNSUPPORTED: "Look at the reasons on the configuration's page: something is switched off, retired, "
        "or meets no criterion.",
        FailureKind.REFUSED: "The model answered, but declined: ask something else.",
        FailureKind.OVER_BUDGET: "Raise the budget, or wait until its period ends.",
        FailureKind.RATE_EXCEEDED: "Wait, or raise the limit.",
        FailureKind.FORBIDDEN: "Change the rule that forbids it, if it should not.",
        FailureKind.CANCELLED: "Try again.",
        FailureKind.INTERNAL: "Look at the log of the server, which says what went wrong.",
    }
)
"""What to do about a failure, in the words of whoever set things up."""


class QuestionForm(forms.Form):
    """What to ask."""

    prompt = forms.CharField(
        label="Question",
        max_length=2000,
        widget=AreaWidget(attrs={"rows": 3}),
        help_text="It goes to a real provider and costs what a call costs. It is not kept.",
    )


@dataclass(frozen=True, slots=True)
class Refusal:
    """A failure as a page shows it."""

    label: str
    message: str
    remedy: str


def refusal_of(failure: Failure) -> Refusal:
    """A failure in words, with what to do about it."""
    return Refusal(
        label=FAILURES[failure.kind].label,
        message=f"{failure.message[:1].upper()}{failure.message[1:]}",
        remedy=REMEDIES[failure.kind],
    )


def try_call(*, target: str, prompt: str, user: str, wanted: Wanted = Wanted.ANSWER) -> Answer:
    """Ask a configuration, or a model by its route, as an application would: for an answer, or for a vector.

    Raises:
        Unanswered: the call failed.
        CallFailed: there was no call, or the answer did not come in time.
    """
    asked = {"input": prompt} if wanted is Wanted.VECTORS else {"messages": [{"role": "user", "content": prompt}]}
    request = read(wanted, orjson.dumps({"model": target, **asked}))

    async def ask_afresh(service: Service) -> Answer:
        await service.refresh()  # what was changed a moment ago counts
        return await ask(service, request, caller=CALLER, options=CallOptions(user=user))

    return home.wait(ask_afresh, seconds=SECONDS)


def list_models(provider: Provider) -> tuple[str, ...]:
    """The ids of the models that a provider's key may use: a check that costs nothing.

    Raises:
        CallFailed: the provider cannot be asked, or did not answer.
    """
    endpoint = endpoint_of(provider, vault=Vault(settings.SIGNALBOX_ENCRYPTION_KEYS))
    adapter = adapter_for(endpoint.adapter_type)

    async def ask_provider(service: Service) -> tuple[str, ...]:
        return await adapter.list_models(endpoint=endpoint, transport=service.services.transport)

    return home.wait(ask_provider, seconds=SECONDS)


def figures_of(trial: Answer) -> list[tuple[str, str]]:
    """Route, time, tokens and cost of a call that was answered."""
    usage, cost = trial.usage, trial.cost
    return [
        ("Route", trial.route),
        ("Model that answered", trial.response_model or ABSENT),
        ("Took", f"{trial.latency_ms:,.0f} ms"),
        ("Tokens in", ABSENT if usage is None else f"{usage.input + usage.cache_read + usage.cache_write:,}"),
        ("Tokens out", ABSENT if usage is None else f"{usage.output:,}"),
        ("Cost", "unpriced" if cost is None else spell_cost(cost.nanos, cost.currency)),
        ("Requests sent", f"{trial.attempts:,}"),
    ]


def wanted_of(model: LanguageModel) -> Wanted:
    """What a model is asked for: an answer, unless it declares that it makes vectors and nothing that answers."""
    declared = set(model.capabilities)
    embeds = Capability.EMBEDDINGS in declared and not declared & {Capability.CHAT, Capability.COMPLETION}
    return Wanted.VECTORS if embeds else Wanted.ANSWER


def _shown(trial: Answer) -> str:
    """What was answered, in words: of a vector, how long it is."""
    document = trial.document
    if document.get("object") != "list":
        return trial.text
    return f"A vector of {len(document['data'][0]['embedding']):,} numbers."


class TestedAdmin(RecordAdmin):
    """A record with a page on which it is tried out. It takes the permission to change the record: calls cost."""

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view(self.try_view)
        return [path("<path:object_id>/try/", view, name=self._try_name), *super().get_urls()]

    @property
    def _try_name(self) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_try"

    def record_tools(self, request: HttpRequest, record: Any) -> list[RecordTool]:
        if not self.has_change_permission(request, record):
            return []
        return [RecordTool("Test", reverse(f"admin:{self._try_name}", args=[record.pk]), "play_arrow")]

    def try_target(self, record: Any) -> str:
        """What an application would write as the model."""
        raise NotImplementedError

    def try_wanted(self, record: Any) -> Wanted:
        """What it is asked for."""
        return Wanted.ANSWER

    def try_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask, and show what came back."""
        record = self.get_object(request, unquote(object_id))
        if record is None:
            return self.nothing_there(request, object_id)
        if not self.has_change_permission(request, record):
            raise PermissionDenied
        form = QuestionForm(request.POST or None, initial={"prompt": PROMPT})
        result: dict[str, Any] = {}
        if form.is_valid():
            result = self.try_out(request, record, form.cleaned_data["prompt"])
        context = {
            **self.admin_site.each_context(request),
            "title": f"Test {record}",
            "opts": self.opts,
            "original": record,
            "form": form,
            **result,
        }
        return TemplateResponse(request, "admin/signalbox/try.html", context)

    def try_out(self, request: HttpRequest, record: Any, prompt: str) -> dict[str, Any]:
        """Ask the record; gives what the page shows."""
        try:
            trial = try_call(
                target=self.try_target(record),
                prompt=prompt,
                user=request.user.get_username(),
                wanted=self.try_wanted(record),
            )
        except Unanswered as failed:
            return {"call_id": failed.call_id, "refusal": refusal_of(failed.failure)}
        except CallFailed as failed:
            return {"refusal": refusal_of(failed.failure)}
        shown: dict[str, Any] = {"call_id": trial.call_id}
        if trial.refusal is not None:
            return {**shown, "refusal": refusal_of(trial.refusal)}
        return {**shown, "answer": _shown(trial), "figures": figures_of(trial)}
