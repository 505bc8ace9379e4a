"""Asks which models may serve the call and puts the ordered plan on the notes.

The name asked for is authorised before anything is substituted for it.
"""

from dataclasses import replace
from difflib import get_close_matches

from governance.decisions import NOBODY, lay_out, rule
from governance.gateway.context import Answer, CallContext, Proceed
from governance.gateway.errors import MODEL_NOT_FOUND
from governance.trace import note
from routing.core.configuration import ConfigurationSpec, override
from routing.core.failures import CallFailed, Failure, FailureKind
from routing.core.plan import final_failure

_NAMES_SHOWN = 20


async def handle(context: CallContext, proceed: Proceed) -> Answer:
    """Decide; a call that nobody may serve ends here."""
    configuration = _configuration(context)
    note(configuration=configuration.identifier)
    standing, notes, caller = context.standing, context.notes, context.caller
    who = replace(NOBODY, application=caller.application, key=caller.key, user=context.user)
    notes.ruling = rule(
        standing,
        configuration,
        requirements=context.requirements,
        limits=context.limits,
        now=context.started_at,
        who=who,
    )
    notes.plan = lay_out(
        standing,
        configuration,
        notes.ruling,
        requirements=context.requirements,
        limits=context.limits,
        now=context.started_at,
        may_ask_for=context.caller.may_ask_for,
        who=who,
    )
    if not notes.plan.steps:
        raise CallFailed(
            final_failure(
                decision=notes.ruling.decision,
                last=None,
                skips=notes.plan.skips,
                allowed_models=context.limits.allowed_models,
            )
        )
    return await proceed(context)


def _configuration(context: CallContext) -> ConfigurationSpec:
    """The configuration, or the model, that the caller names."""
    name, caller, snapshot = context.request.target, context.caller, context.standing.snapshot
    configuration = snapshot.configurations.get(name)
    if configuration is not None and not caller.may_ask_for(name):
        raise CallFailed(
            Failure(FailureKind.FORBIDDEN, f"the key does not allow the configuration {name}. {_names(context)}")
        )
    if configuration is not None and not configuration.is_active:
        raise _unknown(f"the configuration {name} is switched off. {_names(context)}")
    if configuration is not None:
        return configuration
    provider, slash, model = name.partition("/")
    named = snapshot.catalogue.named(provider=provider, model=model) if slash else None
    if slash and not caller.may_name_models:
        raise CallFailed(
            Failure(FailureKind.FORBIDDEN, f"the key does not allow naming models directly. {_names(context)}")
        )
    if named is None:
        raise _unknown(f"there is no configuration {name}. {_names(context)}")
    return override(named.identifier)


def _unknown(message: str) -> CallFailed:
    return CallFailed(Failure(FailureKind.UNSUPPORTED, message, code=MODEL_NOT_FOUND, parameter="model"))


def _names(context: CallContext) -> str:
    """What the key may ask for instead, the likeliest first."""
    allowed = sorted(
        name
        for name, spec in context.standing.snapshot.configurations.items()
        if spec.is_active and context.caller.may_ask_for(name)
    )
    if not allowed:
        return "The key may ask for no configuration; an operator has to allow or to register one."
    close = get_close_matches(context.request.target, allowed, n=1)
    hint = f"Did you mean {close[0]}? " if close else ""
    return f"{hint}Available: {', '.join(allowed[:_NAMES_SHOWN])}{' …' if len(allowed) > _NAMES_SHOWN else ''}"
