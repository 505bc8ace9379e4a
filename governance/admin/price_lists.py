"""The page that compares prices with public price lists: what would change, what is held, and buttons for both."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from governance.access.authors import author_of
from governance.admin.fields import ReasonField
from governance.audit.actions import Author
from governance.price_sync import (
    DECIDABLE,
    PRICE_STANDING_LABELS,
    TAKEN,
    Comparison,
    compare,
    decline,
    spell_price,
    take_over,
)
from governance.spelling import ABSENT
from routing.price_catalogue import CatalogueMissing, PriceCatalogue


class WhyForm(forms.Form):
    """Why."""

    reason = ReasonField()


@dataclass(frozen=True, slots=True)
class Row:
    """One model on the page. ``choice`` names it and the price that was shown."""

    comparison: Comparison
    label: str
    choice: str
    is_checked: bool
    now: str
    listed: str
    left_out: str

    @classmethod
    def of(cls, each: Comparison) -> "Row":
        listing = each.listing
        return cls(
            comparison=each,
            label=PRICE_STANDING_LABELS[each.standing],
            choice=f"{each.model} {each.listed}" if each.standing in DECIDABLE else "",
            is_checked=each.standing in TAKEN,
            now="unpriced" if each.current is None else spell_price(each.current),
            listed=each.listed or ABSENT,
            left_out="" if listing is None else ", ".join(listing.left_out),
        )


def price_lists_page(request: HttpRequest, *, opts: Any, context: dict[str, Any], may_change: bool) -> HttpResponse:
    """Show the comparison; write what was chosen when the answer comes back. ``?model=`` limits it to some models."""
    models = request.GET.getlist("model") or None
    try:
        catalogue = PriceCatalogue()
    except CatalogueMissing as missing:
        return _page(request, {**context, "opts": opts, "missing": str(missing)})
    form = WhyForm(request.POST or None)
    if request.method == "POST":
        if not may_change:
            raise PermissionDenied
        if form.is_valid():
            _do(request, catalogue, author=author_of(request), reason=form.cleaned_data["reason"])
            return HttpResponseRedirect(request.get_full_path())
    rows = [Row.of(each) for each in compare(catalogue, models=models)]
    shown = {
        "opts": opts,
        "catalogue": catalogue.label,
        "form": form,
        "may_change": may_change,
        "open": [row for row in rows if row.choice],
        "others": [row for row in rows if not row.choice],
        "limited": models is not None,
    }
    return _page(request, {**context, **shown})


def _do(request: HttpRequest, catalogue: PriceCatalogue, *, author: Author, reason: str) -> None:
    chosen = {choice.partition(" ")[0]: choice for choice in request.POST.getlist("choice")}
    found = [each for each in compare(catalogue, models=list(chosen)) if Row.of(each).choice == chosen[each.model]]
    if request.POST.get("do") == "decline":
        done = _decline(request, found, author=author, reason=reason)
        verb = "Turned down"
    else:
        done = [each.model for each in take_over(catalogue, found, author=author, reason=reason)]
        verb = "Taken over"
    left = len(chosen) - len(done)
    if done:
        messages.success(request, f"{verb}: {', '.join(done)}.")
    if left:
        messages.warning(request, f"Left alone, since it is not as it was shown: {left}.")
    if not chosen:
        messages.info(request, "Nothing was chosen.")


def _decline(request: HttpRequest, found: Iterable[Comparison], *, author: Author, reason: str) -> list[str]:
    done = []
    for each in found:
        try:
            decline(each, author=author, reason=reason)
        except ValidationError as refused:
            messages.error(request, " ".join(refused.messages))
        else:
            done.append(each.model)
    return done


def _page(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    return TemplateResponse(
        request, "admin/routing/languagemodel/price_lists.html", {"title": "Price lists", **context}
    )
