"""How much reasoning, in the words of vendors that know words only."""

from routing.core.conversation import Effort, ReasoningWish

LOW_UP_TO, MEDIUM_UP_TO = 4096, 16384
"""The budgets in tokens that still come to these efforts."""


def effort_of(wish: ReasoningWish) -> Effort | None:
    """The effort a wish comes to; ``None`` where how much is left to the model."""
    if wish.budget is None or not wish.is_on:
        return wish.effort
    if wish.budget <= LOW_UP_TO:
        return Effort.LOW
    return Effort.MEDIUM if wish.budget <= MEDIUM_UP_TO else Effort.HIGH
