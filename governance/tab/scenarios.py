"""A decision saved as a scenario: the answer that a browser keeps as a file."""

from django.http import HttpResponse
from django.utils.text import slugify

from routing.core.decision import Decision
from routing.core.scenario_file import scenario_of, spell_scenario


def scenario_answer(
    decision: Decision, *, name: str, description: str, call_history: bool | None = None
) -> HttpResponse:
    """The file, named after what it is of. ``call_history`` is the switch, where it is known."""
    content = scenario_of(decision, call_history=call_history, description=description)
    return HttpResponse(
        spell_scenario(content),
        content_type="application/json",
        headers={"Content-Disposition": f'attachment; filename="{slugify(name) or "scenario"}.json"'},
    )
