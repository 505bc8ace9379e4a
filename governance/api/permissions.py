"""Who may do what: each view says so in the table of its methods, which a test goes through."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from governance.api.authentication import KeyHolder
from governance.api.exceptions import ApiProblem, ProblemType

if TYPE_CHECKING:
    from rest_framework.views import APIView  # which asks for this module while it is imported


@dataclass(frozen=True, slots=True)
class Permit:
    """Who may use one method of an address.

    Attributes:
        permissions: what somebody who is logged in must hold, all of it; ``None`` if nobody may who is logged in.
        keys: whether holders of virtual keys may.
        anybody: whether nobody needs to be known.
    """

    permissions: tuple[str, ...] | None = None
    keys: bool = False
    anybody: bool = False


ANYBODY = Permit(anybody=True, keys=True, permissions=())
KEYS = Permit(keys=True)


def people(*permissions: str) -> Permit:
    """Those who are logged in and hold these permissions."""
    return Permit(permissions=permissions)


def both(*permissions: str) -> Permit:
    """Holders of keys, for what is their own, and those who are logged in and hold these permissions."""
    return Permit(permissions=permissions, keys=True)


class Admits(Protocol):
    """What has a permit."""

    @property
    def permit(self) -> Permit:
        """Who may use it."""


@runtime_checkable
class Admitting(Protocol):
    """A view with a table of its methods."""

    def operation_of(self, method: str | None) -> Admits | None:
        """The entry of a method."""


class Permitted(BasePermission):
    """Holds a request to the permit of its method."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Raises what is missing; a method that there is not is told of later."""
        operation = view.operation_of(request.method) if isinstance(view, Admitting) else None
        permit = None if operation is None else operation.permit
        if permit is None or permit.anybody:
            return True
        if isinstance(request.user, KeyHolder):
            return permit.keys or _refuse("A virtual key cannot do this: log in as somebody who may.")
        if not request.user.is_authenticated:
            return False
        if permit.permissions is None:
            return _refuse("This is for applications: send a virtual key.")
        # Who may not enter the admin may not enter here either.
        missing = [each for each in permit.permissions if not request.user.has_perm(each)]
        if not request.user.is_staff:
            return _refuse("Who is logged in is no member of staff.")
        return not missing or _refuse(f"It takes the permission {' and '.join(missing)}.")


def _refuse(detail: str) -> bool:
    raise ApiProblem(ProblemType.FORBIDDEN, detail)
