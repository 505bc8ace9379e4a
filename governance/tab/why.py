"""*Why this model?*: a question in a form, its answer in a table, and both in an address that can be shared."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.utils import timezone

from governance.decisions import Standing
from governance.explanations import Explanation
from governance.gateway.service import standing_now
from governance.models import Application
from governance.questions import Answer, Question, ask
from governance.spelling import spell_period
from governance.tab.addresses import OFF, ON, SCENARIO, WHY, address_of, scenario_address_of, spell_question
from governance.tab.explained import WORDS, ExplanationPage, page_of
from governance.tab.panels import Content, Download, Panel
from governance.tab.scenarios import scenario_answer
from governance.tab.words import WHOSE
from routing.core.configuration import ConfigurationSpec
from routing.core.policy import MODE_LABELS, PolicyMode, RoutingPolicy
from routing.core.vocabulary import LABELS, Capability, DecisionState, Operation, Selection

OF_A_REQUEST = (
    Capability.TOOLS,
    Capability.VISION,
    Capability.STRUCTURED_OUTPUT,
    Capability.REASONING,
    Capability.PROMPT_CACHING,
)
"""What a request may need besides what its operation says."""


class QuestionForm(forms.Form):
    """The question as an address holds it. What is missing or empty means what it means in a :class:`Question`.

    Which application asks is to be chosen from ``applications``; without any, it makes no difference.
    """

    configuration = forms.ChoiceField(label="Configuration")
    operation = forms.ChoiceField(
        label="Operation",
        required=False,
        choices=[
            ("", "None chosen"),
            *((each.value, LABELS[each]) for each in Operation),
        ],
    )
    mode = forms.ChoiceField(label="Policy mode", required=False)
    history = forms.ChoiceField(label="Call history", required=False)
    application = forms.ChoiceField(label="Asked by", required=False)
    needs = forms.MultipleChoiceField(
        label="The request also needs",
        required=False,
        choices=[(each.value, LABELS[each]) for each in OF_A_REQUEST],
        widget=forms.CheckboxSelectMultiple,
    )

    def __init__(
        self,
        data: QueryDict,
        *,
        configurations: Sequence[ConfigurationSpec],
        policy: RoutingPolicy,
        applications: Sequence[str] = (),
    ) -> None:
        super().__init__(data, auto_id="why_%s")
        fields: dict[str, Any] = self.fields
        if applications:
            named = [(each, f"the application {each}") for each in applications]
            fields["application"].choices = [("", "nobody in particular"), *named]
        else:
            del fields["application"]
        fields["configuration"].choices = [
            (each.identifier, each.identifier if each.is_active else f"{each.identifier} (switched off)")
            for each in configurations
        ]
        fields["mode"].choices = [
            ("", "As it is in force"),
            *((each.value, f"{each.value}: {MODE_LABELS[each].lower()}") for each in PolicyMode),
        ]
        fields["history"].choices = [
            ("", f"As it is in force ({ON if policy.call_history else OFF})"),
            (ON, "As if it were on"),
            (OFF, "As if it were off"),
        ]
        for name, field in fields.items():
            field.error_messages["invalid_choice"] = f"{name}: %(value)s is none of those offered; choose one."
            field.error_messages["required"] = f"{name}: none is named; choose one."

    @property
    def question(self) -> Question:
        """The question of a form that is valid."""
        asked = self.cleaned_data
        return Question(
            configuration=asked["configuration"],
            operation=Operation(asked["operation"]) if asked["operation"] else None,
            mode=PolicyMode(asked["mode"]) if asked["mode"] else None,
            history={ON: True, OFF: False}.get(asked["history"]),
            needs=frozenset(asked["needs"]),
            application=asked.get("application", ""),
        )


@dataclass(frozen=True, slots=True)
class Route:
    """A route of the plan. ``fallback`` names the configuration it stands for, if that is another one; ``rests`` says
    why a call that came now would pass it over."""

    name: str
    fallback: str
    url: str
    rests: str


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer as the panel shows it.

    Attributes:
        verdict: the answer in one sentence.
        supposed: what was supposed, in words; empty for the policy in force.
        instead: for a hypothetical, what the policy in force leads to.
        kept_for: for how long a call like it may be answered without asking anybody; empty if it never is.
        whose: for whom the answer holds, where others' calls may go elsewhere.
    """

    verdict: str
    is_served: bool
    supposed: str
    instead: str
    problem: str
    decision: ExplanationPage
    routes: Sequence[Route]
    skips: Sequence[tuple[str, str]]
    kept_for: str
    whose: str
    url: str
    scenario_url: str
    asked_at: datetime


@dataclass(frozen=True, slots=True)
class WhyThisModel:
    """The panel: the form, and the answer or what is wrong with the question."""

    form: QuestionForm | None
    problems: Sequence[tuple[str, str]]
    reply: Reply | None
    url: str


def answer(request: HttpRequest) -> Content:
    """Answer the question of the address. Without one, a chat call of a ranked configuration is asked about."""
    standing = standing_now()
    form = _form(request, standing)
    if form is None:
        return Content(WhyThisModel(None, (), None, PANEL.url), "There is no configuration yet.")
    if not form.is_valid():
        problems = [(form[name].id_for_label, str(error)) for name, errors in form.errors.items() for error in errors]
        return Content(WhyThisModel(form, problems, None, PANEL.url), "The question cannot be asked as it is.")
    question, now = form.question, timezone.now()
    found = ask(standing, question, now=now)
    in_force = ask(standing, replace(question, mode=None, history=None), now=now) if question.is_hypothetical else None
    reply = _reply(found, in_force, standing)
    return Content(WhyThisModel(form, (), reply, PANEL.url), reply.verdict)


def save(request: HttpRequest) -> HttpResponse:
    """The answer as a scenario. A question that cannot be asked goes to the panel, which says what is wrong with it."""
    standing = standing_now()
    form = _form(request, standing)
    if form is None or not form.is_valid():
        return redirect(f"{PANEL.url}?{request.GET.urlencode()}")
    question, now = form.question, timezone.now()
    found = ask(standing, question, now=now)
    supposed = _supposed(question)
    return scenario_answer(
        found.ruling.decision,
        name=f"{question.configuration}-{question.operation or 'no-operation'}",
        description=f"{question.configuration}, {now:%Y-%m-%d %H:%M} UTC{f', as if {supposed}' if supposed else ''}.",
        call_history=found.policy.call_history,
    )


def _form(request: HttpRequest, standing: Standing) -> QuestionForm | None:
    """The form with the question of the address; ``None`` while there is nothing to ask about."""
    configurations = sorted(standing.snapshot.configurations.values(), key=_interest)
    if not configurations:
        return None
    data = request.GET or QueryDict(spell_question(Question(configurations[0].identifier, Operation.CHAT)))
    applications: Sequence[str] = ()
    if standing.budgets.has_tiers_of_some:
        applications = list(Application.objects.order_by("identifier").values_list("identifier", flat=True))
    return QuestionForm(
        data, configurations=configurations, policy=standing.settings.routing, applications=applications
    )


def _interest(configuration: ConfigurationSpec) -> tuple[bool, bool, str]:
    """What is on goes before what is off, what is ranked before what is not."""
    return (not configuration.is_active, configuration.selection is not Selection.CRITERIA, configuration.identifier)


def _reply(found: Answer, in_force: Answer | None, standing: Standing) -> Reply:
    question, explanation = found.question, found.explanation
    own = found.configuration.identifier
    return Reply(
        verdict=_verdict(explanation),
        is_served=explanation.selected is not None,
        supposed=_supposed(question),
        instead="" if in_force is None else _instead(explanation, in_force.explanation),
        problem=""
        if found.configuration.is_active
        else "The configuration is switched off: calls that ask for it are refused until it is switched on.",
        decision=page_of(explanation)
        if in_force is None
        else replace(page_of(explanation, compared_with=in_force.explanation), state=_supposed_state(explanation)),
        routes=[
            Route(
                step.model.route,
                "" if step.configuration == own else step.configuration,
                address_of(replace(question, configuration=step.configuration)),
                standing.circuits.state(step.model.identifier).told,
            )
            for step in found.plan.steps
        ],
        skips=[(skip.name, skip.detail) for skip in found.plan.skips],
        kept_for="" if found.kept_for is None else spell_period(found.kept_for),
        whose=_whose(question) if standing.budgets.has_tiers_of_some else "",
        url=address_of(question),
        scenario_url=scenario_address_of(question),
        asked_at=found.asked_at,
    )


def _whose(question: Question) -> str:
    if not question.application:
        return WHOSE
    return (
        f"Asked as the application {question.application}, within the tiers of its budgets. Those that name a key or a "
        "user are not counted."
    )


def _verdict(explanation: Explanation) -> str:
    """Who goes first and by what, in one sentence."""
    first = explanation.selected
    if first is None:
        return f"{LABELS[explanation.state]}."
    if first.leads_by is None:
        return f"{first.model.route} is the only one that may serve."
    second = explanation.candidates[1]
    return f"{first.model.route} goes first, ahead of {second.model.route} by {WORDS[first.leads_by]}."


def _supposed_state(explanation: Explanation) -> str:
    """The state in words, where the policy is not the one in force."""
    is_ranked = explanation.state is DecisionState.DECIDED
    return "Ranked by the policy that is supposed" if is_ranked else LABELS[explanation.state]


def _supposed(question: Question) -> str:
    mode = "" if question.mode is None else f"policy mode {question.mode.value}"
    history = "" if question.history is None else f"call history {ON if question.history else OFF}"
    return " and ".join(each for each in (mode, history) if each)


def _instead(supposed: Explanation, in_force: Explanation) -> str:
    before = None if in_force.selected is None else in_force.selected.model.route
    after = None if supposed.selected is None else supposed.selected.model.route
    if before == after:
        return "The policy in force leads to the same model."
    return f"The policy in force leads to {before or 'none'}."


PANEL = Panel(
    slug=WHY,
    title="Why this model?",
    template="governance/_why.html",
    permissions=("routing.view_configuration", "routing.view_languagemodel", "telemetry.view_call"),
    answer=answer,
    downloads=(Download(SCENARIO, save),),
)
