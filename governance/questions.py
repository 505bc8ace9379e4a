"""A question nobody has called with: which model would answer this, and which if the policy were another one?

Asked of what is in force by the same functions that rule for a call. A hypothetical mode or switch replaces only the
policy; nothing is stored, nothing is executed. Figures of call history are kept up to date whether or not the policy in
force reads them, so a hypothetical that does read them finds them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType

from governance.access.directory import Caller
from governance.decisions import NOBODY, Ruling, Standing, lay_out, rule
from governance.explanations import Explanation, OpenNeed, explain
from routing.core.configuration import ConfigurationSpec
from routing.core.plan import Plan
from routing.core.policy import PolicyMode, RoutingPolicy
from routing.core.requirements import UNLIMITED, Limits, Requirements
from routing.core.vocabulary import Capability, Operation


class UnknownConfiguration(LookupError):
    """No configuration in service or switched off has this name."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked.

    Attributes:
        configuration: the name an application would ask for.
        operation: ``None`` asks for none, and then no history is read.
        mode: decide as if every configuration used this mode; ``None`` for the modes in force.
        history: decide as if ``routing.callHistory`` were on or off; ``None`` for the setting in force.
        needs: capabilities the request needs besides the operation's own.
        application: identifier of the application that asks, for the tiers of its budgets; empty for nobody in
            particular. A key that asks is its own application's.
    """

    configuration: str
    operation: Operation | None = None
    mode: PolicyMode | None = None
    history: bool | None = None
    needs: frozenset[str] = frozenset()
    application: str = ""

    @property
    def is_hypothetical(self) -> bool:
        """Whether another policy than the one in force is asked about."""
        return self.mode is not None or self.history is not None


@dataclass(frozen=True, slots=True)
class Answer:
    """How the question was decided.

    Attributes:
        configuration: as recorded; one that is switched off is answered as if it were on.
        policy: the installation's policy it was decided by, hypothetical parts included.
        plan: the routes a call would walk, fallback configurations included.
        kept_for: for how long a deterministic request of this kind gets the answer that its application had to the
            same one before, without anybody being asked; ``None`` if it never does.
        asked_at: the moment whose prices and figures these are.
    """

    question: Question
    configuration: ConfigurationSpec
    policy: RoutingPolicy
    ruling: Ruling
    plan: Plan
    explanation: Explanation
    kept_for: timedelta | None
    asked_at: datetime


def ask(standing: Standing, question: Question, *, now: datetime, caller: Caller | None = None) -> Answer:
    """Decide a question by what is in force.

    Args:
        standing: what is in force.
        question: what is asked.
        now: the moment whose prices count.
        caller: whose key asks. Without one none of a key's limits binds: which models and fallback configurations it
            allows, and whether it has a budget of its own past a tier, is an open need.

    Raises:
        UnknownConfiguration: there is no such configuration, or it is retired.
    """
    spec = standing.snapshot.configurations.get(question.configuration)
    if spec is None:
        raise UnknownConfiguration(question.configuration)
    supposed = suppose(standing, mode=question.mode, history=question.history)
    decided = supposed.snapshot.configurations[question.configuration]
    requirements = Requirements(operation=question.operation, needs=question.needs)
    limits = UNLIMITED if caller is None else Limits(allowed_models=caller.allowed_models)
    who = replace(NOBODY, application=question.application)
    if caller is not None:
        who = replace(NOBODY, application=caller.application, key=caller.key)
    ruling = rule(supposed, decided, requirements=requirements, now=now, limits=limits, who=who)
    plan = lay_out(
        supposed,
        decided,
        ruling,
        requirements=requirements,
        now=now,
        limits=limits,
        may_ask_for=_anything if caller is None else caller.may_ask_for,
        who=who,
    )
    known = () if caller is None else (OpenNeed.KEY,)
    return Answer(
        question=question,
        configuration=spec,
        policy=supposed.settings.routing,
        ruling=ruling,
        plan=plan,
        explanation=explain(
            ruling.decision, open_needs=[need for need in open_needs(requirements) if need not in known]
        ),
        kept_for=_kept_for(question, spec, most=standing.settings.submissions.content_kept),
        asked_at=now,
    )


def _anything(_: str) -> bool:
    return True


_NEVER_KEPT = frozenset({Operation.STREAM, Operation.STREAM_TOOLS, Operation.TOOLS})


def _kept_for(question: Question, spec: ConfigurationSpec, *, most: timedelta) -> timedelta | None:
    """What is streamed, and what may call tools, the response cache neither keeps nor gives."""
    is_never_kept = question.operation in _NEVER_KEPT or Capability.TOOLS in question.needs
    return None if is_never_kept else spec.keeps_answers_for(most)


def suppose(standing: Standing, *, mode: PolicyMode | None = None, history: bool | None = None) -> Standing:
    """What would be in force under another policy: the same catalogue and the same figures.

    A hypothetical mode goes before the modes that configurations set for themselves.
    """
    if mode is None and history is None:
        return standing
    policy, configurations = standing.settings.routing, standing.snapshot.configurations
    if history is not None:
        policy = replace(policy, call_history=history)
    if mode is not None:
        policy = replace(policy, mode=mode)
        configurations = {name: replace(spec, policy_mode=None) for name, spec in configurations.items()}
    return replace(
        standing,
        settings=replace(standing.settings, routing=policy),
        snapshot=replace(standing.snapshot, configurations=configurations),
        remembered={},  # rulings of the policy in force are none of this one
    )


def open_needs(requirements: Requirements) -> tuple[OpenNeed, ...]:
    """What a request with these requirements may need besides, and a question cannot know."""
    known = {str(each) for each in requirements.capabilities}
    return tuple(need for need in _OPEN[requirements.operation] if need.value not in known)


_ALWAYS_OPEN = (OpenNeed.CONTEXT_LENGTH, OpenNeed.KEY, OpenNeed.COST_CEILING)
_OF_A_CHAT = (OpenNeed.STRUCTURED_OUTPUT, OpenNeed.REASONING, OpenNeed.PROMPT_CACHING, *_ALWAYS_OPEN)

_OPEN: Mapping[Operation | None, tuple[OpenNeed, ...]] = MappingProxyType(
    {
        None: (OpenNeed.OPERATION, OpenNeed.TOOLS, OpenNeed.VISION, *_OF_A_CHAT),
        Operation.CHAT: _OF_A_CHAT,  # with images it would be another operation, and so it would with tools
        Operation.COMPLETE: _ALWAYS_OPEN,
        Operation.VISION: _OF_A_CHAT,
        Operation.TOOLS: (OpenNeed.VISION, *_OF_A_CHAT),
        Operation.EMBED: _ALWAYS_OPEN,
        Operation.STREAM: (OpenNeed.VISION, *_OF_A_CHAT),
        Operation.STREAM_TOOLS: (OpenNeed.VISION, *_OF_A_CHAT),
    }
)
