"""Prices beside public price lists: what would change, and taking it over or turning it down."""

from collections.abc import Mapping

from django.http import HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from governance.api.authentication import author_of
from governance.api.exceptions import ApiProblem, ProblemType, wrong_field
from governance.api.permissions import people
from governance.api.serializers import Reason, StrictSerializer
from governance.api.views import ApiView, Operation
from governance.price_sync import DECIDABLE, TAKEN, Comparison, PriceStanding, compare, decline, spell_price, take_over
from routing.price_catalogue import CatalogueMissing, PriceCatalogue

_MOST_MODELS = 1000


class ComparisonSerializer(StrictSerializer):
    """One model's price beside the lists."""

    model = serializers.CharField(help_text="Its identifier.")
    route = serializers.CharField()
    standing = serializers.ChoiceField(
        [each.value for each in PriceStanding],
        help_text="`first` and `moved` are taken over when asked; `held` and `declined` only by name.",
    )
    why = serializers.CharField(help_text="That in a sentence, where it needs one.")
    current = serializers.SerializerMethodField(help_text="The price in force, in one line; null if unpriced.")
    provenance = serializers.CharField(help_text="Where the price in force came from.")
    listed = serializers.CharField(help_text="The listed price, in one line.")
    listed_as = serializers.SerializerMethodField(help_text="Under which name the lists have it; null if they do not.")
    left_out = serializers.SerializerMethodField(help_text="What else costs something and is in no rate of ours.")

    def get_current(self, each: Comparison) -> str | None:
        return None if each.current is None else spell_price(each.current)

    def get_listed_as(self, each: Comparison) -> str | None:
        return None if each.listing is None else each.listing.name

    def get_left_out(self, each: Comparison) -> list[str]:
        return [] if each.listing is None else list(each.listing.left_out)


class PriceListsSerializer(StrictSerializer):
    """All models beside the lists."""

    catalogue = serializers.CharField(help_text="Name and version of the lists.")
    items = ComparisonSerializer(many=True)


class TakeOver(Reason):
    """Which models are given the listed prices."""

    models = serializers.ListField(
        child=serializers.CharField(max_length=100),
        max_length=_MOST_MODELS,
        required=False,
        help_text="Identifiers. Left out: every model whose price is not held.",
    )


class Decline(Reason):
    """Which held prices are turned down."""

    models = serializers.ListField(
        child=serializers.CharField(max_length=100), min_length=1, max_length=_MOST_MODELS, help_text="Identifiers."
    )


class Decided(StrictSerializer):
    """What was done."""

    models = serializers.ListField(child=serializers.CharField(), help_text="Identifiers, of those that were changed.")


_CHANGE = people("routing.change_languagemodel")


class PriceListsView(ApiView):
    """The comparison, and taking prices over."""

    operations: Mapping[str, Operation] = {
        "GET": Operation(
            name="compare_prices",
            summary="Compare prices with public price lists",
            about="Nothing is changed. It takes the package genai-prices on the server.",
            permit=people("routing.view_languagemodel"),
            answer=PriceListsSerializer,
            problems=(ProblemType.CONFLICT,),
        ),
        "POST": Operation(
            name="take_over_prices",
            summary="Give models the listed prices",
            about="From this moment on. A price that somebody entered stands; one that is held is taken over only "
            "where its model is named, which approves it.",
            permit=_CHANGE,
            body=TakeOver,
            answer=Decided,
            problems=(ProblemType.CONFLICT,),
        ),
    }

    def get(self, request: Request) -> HttpResponseBase:
        catalogue = _catalogue()
        found = {"catalogue": catalogue.label, "items": compare(catalogue)}
        return Response(PriceListsSerializer(found).data)

    def post(self, request: Request) -> HttpResponseBase:
        sent = self.read_body(request)
        catalogue = _catalogue()
        named = sent.get("models")
        found = _found(catalogue, named)
        wanted = found if named is not None else [each for each in found if each.standing in TAKEN]
        stands = [each.model for each in wanted if each.standing not in DECIDABLE]
        if stands:
            raise wrong_field("models", f"There is nothing to take over for {', '.join(stands)}.")
        taken = take_over(catalogue, wanted, author=author_of(request), reason=sent["reason"])
        return Response({"models": [each.model for each in taken]})


class DeclinePricesView(ApiView):
    """Turning held prices down."""

    operations: Mapping[str, Operation] = {
        "POST": Operation(
            name="decline_prices",
            summary="Turn held prices down",
            about="They are held no more, until the lists say something else.",
            permit=_CHANGE,
            body=Decline,
            answer=Decided,
            problems=(ProblemType.CONFLICT,),
        )
    }

    def post(self, request: Request) -> HttpResponseBase:
        sent = self.read_body(request)
        found = _found(_catalogue(), sent["models"])
        idle = [each.model for each in found if each.standing is not PriceStanding.HELD]
        if idle:
            raise wrong_field("models", f"Nothing is held for {', '.join(idle)}.")
        for each in found:
            decline(each, author=author_of(request), reason=sent["reason"])
        return Response({"models": [each.model for each in found]})


def _catalogue() -> PriceCatalogue:
    try:
        return PriceCatalogue()
    except CatalogueMissing as missing:
        raise ApiProblem(ProblemType.CONFLICT, str(missing)) from None


def _found(catalogue: PriceCatalogue, named: list[str] | None) -> list[Comparison]:
    found = compare(catalogue, models=named)
    missing = sorted(set(named or ()) - {each.model for each in found})
    if missing:
        raise wrong_field("models", f"There is no model {', '.join(missing)}.")
    return found
