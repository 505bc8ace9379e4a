"""What the addresses of all records have in common: a list, one record, a change that names its version, retirement.

A kind of record says how it is read and how what was sent is stored; storing is ``governance.changes``.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.db.models import Model, QuerySet
from django.http import HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.status import HTTP_201_CREATED

from governance.api.authentication import author_of
from governance.api.exceptions import ApiProblem, ProblemType
from governance.api.pagination import PageQuery, page_of
from governance.api.permissions import Permit, people
from governance.api.serializers import Reason, ReasonedSerializer
from governance.api.versions import etag_of, expected_version
from governance.api.views import ApiView, Operation
from governance.audit.actions import Author, RecordKind
from governance.changes.records import bring_back, retire


class RecordQuery(PageQuery):
    """Which records."""

    retired = serializers.BooleanField(
        required=False, default=False, help_text="Whether retired records are listed as well."
    )


class Filled:
    """What was sent for a record: the record, the values, who sent them, and for which version they are meant."""

    def __init__(
        self, record: Any, values: Mapping[str, Any], *, author: Author, is_new: bool, expected: str | None = None
    ) -> None:
        self.record = record
        self.values = dict(values)
        self.reason: str = self.values.pop("reason", "")
        self.author = author
        self.is_new = is_new
        self.expected = expected

    def fill(self, *, but: Sequence[str] = ()) -> list[str] | None:
        """Set what was sent, but for what is no column; gives the columns to write, of a new record ``None``: all."""
        names = [name for name in self.values if name not in but]
        for name in names:
            setattr(self.record, name, self.values[name])
        return None if self.is_new else names


class Kind(ABC):
    """One kind of record as the API has it. There is one object of each."""

    model: ClassVar[type[Model]]
    record: ClassVar[RecordKind]
    word: ClassVar[str]
    """What one is called in names of operations."""
    words: ClassVar[str]
    serializer: ClassVar[type[ReasonedSerializer]]
    creation: ClassVar[type[ReasonedSerializer] | None] = None
    """What a new one may hold; as it is read, if not said."""
    change: ClassVar[type[ReasonedSerializer]]
    """What a change may hold: what is fixed when a record is made is left out."""
    made: ClassVar[type[ReasonedSerializer] | None] = None
    """What the answer to its making says; as any other answer, if not said."""
    query: ClassVar[type[PageQuery]] = RecordQuery
    order: ClassVar[tuple[str, ...]] = ("identifier",)
    key: ClassVar[str] = "identifier"
    """The column by which an address names a record."""

    @property
    def one(self) -> str:
        """One of them, in a sentence."""
        return f"{'an' if self.word[0] in 'aeiou' else 'a'} {self.word}"

    @abstractmethod
    def rows(self) -> "QuerySet[Any]":
        """The records with what an answer says of them: a constant number of queries."""

    @abstractmethod
    def store(self, filled: Filled) -> dict[str, Any]:
        """Store what was sent; gives what only this answer says, such as a secret."""

    def chosen(self, query: Mapping[str, Any]) -> "QuerySet[Any]":
        """The records that a query asks for."""
        return self.rows() if query["retired"] else self.rows().filter(retired_at=None)

    def find(self, name: object) -> Any:
        """One record.

        Raises:
            ApiProblem: there is none.
        """
        found = self.rows().filter(**{self.key: name}).first()
        if found is None:
            raise ApiProblem(ProblemType.NOT_FOUND, f"There is no {self.word} {name}.")
        return found

    def permit(self, *verbs: str) -> Permit:
        """People who may do these things with such records."""
        label, name = self.model._meta.app_label, self.model._meta.model_name
        return people(*(f"{label}.{verb}_{name}" for verb in verbs))

    def answer(self, record: Any, *, more: Mapping[str, Any] | None = None, **settings: Any) -> Response:
        """A record as it is stored, under its version."""
        etag = etag_of(self.record, record.pk)
        stored = self.rows().get(pk=record.pk)
        headers = {"ETag": etag, **settings.pop("headers", {})}
        return Response({**self.serializer(stored).data, **(more or {})}, headers=headers, **settings)


class KindView(ApiView):
    """An address of one kind of record."""

    kind: Kind | None = None

    @property
    def of(self) -> Kind:
        """The kind; each address names one in the table of addresses."""
        if self.kind is None:
            raise TypeError(f"{type(self).__name__} is the address of no kind of record")
        return self.kind


class RecordsView(KindView):
    """All records of a kind."""

    @property
    def operations(self) -> Mapping[str, Operation]:
        kind = self.of
        return {
            "GET": Operation(
                name=f"list_{kind.words}",
                summary=f"List {kind.words}",
                permit=kind.permit("view"),
                query=kind.query,
                answer=kind.serializer,
                is_page=True,
            ),
            "POST": Operation(
                name=f"create_{kind.word}",
                summary=f"Create {kind.one}",
                permit=kind.permit("add"),
                body=kind.creation or kind.serializer,
                answer=kind.made or kind.serializer,
                status=HTTP_201_CREATED,
                is_versioned=True,
            ),
        }

    def get(self, request: Request) -> HttpResponseBase:
        page = page_of(request, self.of.chosen(self.query), order=self.of.order, query=self.query)
        return Response({"items": self.of.serializer(page.items, many=True).data, "next": page.next})

    def post(self, request: Request) -> HttpResponseBase:
        record = self.of.model()
        filled = Filled(record, self.read_body(request), author=author_of(request), is_new=True)
        more = self.of.store(filled)
        location = f"{request.path}/{getattr(record, self.of.key)}"
        return self.of.answer(record, more=more, status=HTTP_201_CREATED, headers={"Location": location})


class RecordView(KindView):
    """One record of a kind."""

    @property
    def operations(self) -> Mapping[str, Operation]:
        kind = self.of
        return {
            "GET": Operation(
                name=f"read_{kind.word}",
                summary=f"Read {kind.one}",
                permit=kind.permit("view"),
                answer=kind.serializer,
                is_versioned=True,
            ),
            "PATCH": Operation(
                name=f"change_{kind.word}",
                summary=f"Change {kind.one}",
                about="What is not sent stays as it is; a list is sent as a whole.",
                permit=kind.permit("change"),
                body=kind.change,
                is_partial=True,
                answer=kind.serializer,
                is_versioned=True,
                names_version=True,
                problems=(ProblemType.CONFLICT,),
            ),
        }

    def get(self, request: Request, name: object) -> HttpResponseBase:
        return self.of.answer(self.of.find(name))

    def patch(self, request: Request, name: object) -> HttpResponseBase:
        expected = expected_version(request)
        filled = Filled(
            self.of.find(name), self.read_body(request), author=author_of(request), is_new=False, expected=expected
        )
        more = self.of.store(filled)
        return self.of.answer(filled.record, more=more)


class RetireView(KindView):
    """Takes a record out of service."""

    @property
    def operations(self) -> Mapping[str, Operation]:
        kind = self.of
        return {
            "POST": Operation(
                name=f"retire_{kind.word}",
                summary=f"Retire {kind.one}",
                about="It serves no call and is offered nowhere; its identifier stays taken. Again changes nothing.",
                permit=kind.permit("change"),
                body=Reason,
                answer=kind.serializer,
                is_versioned=True,
            )
        }

    def post(self, request: Request, name: object) -> HttpResponseBase:
        record = self.of.find(name)
        retire(record, author=author_of(request), reason=self.read_body(request)["reason"])
        return self.of.answer(record)


class RestoreView(KindView):
    """Brings a retired record back."""

    @property
    def operations(self) -> Mapping[str, Operation]:
        kind = self.of
        return {
            "POST": Operation(
                name=f"restore_{kind.word}",
                summary=f"Bring {kind.one} back from retirement",
                about="It comes back switched off. Again changes nothing.",
                permit=kind.permit("change"),
                body=Reason,
                answer=kind.serializer,
                is_versioned=True,
            )
        }

    def post(self, request: Request, name: object) -> HttpResponseBase:
        record = self.of.find(name)
        bring_back(record, author=author_of(request), reason=self.read_body(request)["reason"])
        return self.of.answer(record)
