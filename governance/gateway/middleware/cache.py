"""Gives a deterministic request the answer that its application had to the same one, where its configuration says so.

Deterministic is what asks for embeddings, or for temperature 0, and depends on nothing but its own words: no tools, no
links, nothing that is kept at a vendor. Streams are not given again. What cannot be looked up is asked as ever.
"""

import logging
from datetime import timedelta

import orjson
from django.db import Error as DatabaseFault  # an InterfaceError is no DatabaseError

from governance.gateway import kept_answers
from governance.gateway.context import Answer, CacheOutcome, CallContext, Proceed
from governance.models import ContentKind
from governance.replays import Claim, Kept
from governance.safekeeping import mark
from routing.core.calls import CallRequest
from routing.core.configuration import ConfigurationSpec
from routing.core.conversation import FilePart, ImagePart, OpaquePart, Part
from routing.core.plan import Step
from routing.vault import VaultError

logger = logging.getLogger(__name__)


async def handle(context: CallContext, proceed: Proceed) -> Answer:
    """Answer with what is kept, or make the call and keep what its first candidate answers."""
    configuration, notes = _configuration(context), context.notes
    if configuration is None or context.written is None:
        return await proceed(context)
    kept = configuration.keeps_answers_for(context.standing.settings.submissions.content_kept)
    if kept is None or not is_deterministic(context.request):
        return await proceed(context)
    found = await _look_up(context, configuration, kept=kept)
    answer = kept_answers.give_again(context, found) if isinstance(found, Kept) else None
    notes.cache = CacheOutcome.MISS if answer is None else CacheOutcome.HIT
    if answer is not None:
        return answer
    if not isinstance(found, Claim):
        return await proceed(context)
    return await kept_answers.make(
        context, proceed, found, kind=ContentKind.CACHED, kept=kept, is_kept=_is_of_first_candidate
    )


def is_deterministic(request: CallRequest) -> bool:
    """Whether the same request may be given the same answer: nothing is drawn, and nothing else is looked at."""
    if request.stream or request.tools or request.uncarried:
        return False
    if any(_leads_elsewhere(part) for message in request.messages for part in message.parts):
        return False
    return request.embedding is not None or request.sampling.temperature == 0


def _leads_elsewhere(part: Part) -> bool:
    """Whether a part stands for something that is not in the request, and may change."""
    return isinstance(part, OpaquePart) or (
        isinstance(part, ImagePart | FilePart) and not part.url.lower().startswith("data:")
    )


def _configuration(context: CallContext) -> ConfigurationSpec | None:
    """The one asked for; ``None`` where the caller names a model."""
    ruling = context.notes.ruling
    if ruling is None:
        raise RuntimeError("cache runs behind decide")
    return context.standing.snapshot.configurations.get(ruling.decision.configuration)


async def _look_up(context: CallContext, configuration: ConfigurationSpec, *, kept: timedelta) -> Claim | Kept | None:
    """What is kept, or the right to keep; ``None`` if another call is about to, or nobody can look."""
    key = _key(context, configuration, _first(context))
    try:
        return await kept_answers.take(context, key=key, request=key, kept=kept)
    except (DatabaseFault, TimeoutError, VaultError) as error:
        logger.warning("what is kept of answers cannot be looked up (%s)", type(error).__name__)
        return None


def _key(context: CallContext, configuration: ConfigurationSpec, first: Step) -> str:
    """The mark of who asks, whom, by which rules, and what. Whatever the request says of its user is a part of it."""
    original, model = context.request.original, first.model
    if original is None:
        raise RuntimeError("a call that was not written in a protocol has nothing to be recognised by")
    says = (
        context.caller.application,
        repr(configuration),  # any change of it begins anew
        model.provider.identifier,
        model.provider.adapter_type,
        model.identifier,
        model.model_id,
        original.protocol.value,
        original.betas,
    )
    return mark(b"cache", orjson.dumps(original.document), *(each.encode() for each in says))


def _first(context: CallContext) -> Step:
    plan = context.notes.plan
    if plan is None:
        raise RuntimeError("cache runs behind decide")
    return plan.steps[0]


def _is_of_first_candidate(context: CallContext) -> bool:
    """Whether the answer is that of the model it would be kept under, and no refusal."""
    served = context.notes.served
    return context.notes.failure is None and served is not None and served.step == _first(context)
