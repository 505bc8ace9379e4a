"""The page on which a revision is restored: what it would change, why it cannot, and a button.

One page for every kind of record, since the revision tells what is restored, and not the record, which may be gone.
"""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from governance.access.authors import author_of
from governance.admin.differences import difference, differences
from governance.admin.fields import ReasonField
from governance.audit.actions import RecordKind
from governance.changes.door import RecordMovedOn
from governance.changes.restoration import MODELS, Restoration, find_record, preview, restore
from governance.models import AuditEvent, Revision
from routing.models import VersionedRecord

_ROOM = 450  # characters of a reason, before which the trail says which revision was restored


class RestorationForm(forms.Form):
    """Why; and the version that was looked at, so that nothing is undone that nobody has seen."""

    expected = forms.CharField(widget=forms.HiddenInput)
    reason = ReasonField(room=_ROOM)


def may_restore(request: HttpRequest, revision: Revision, record: VersionedRecord | None) -> bool:
    """Whether somebody may restore a revision of a record: it takes the permission to change such records, and where
    there is none any more, to make one."""
    kind = RecordKind(revision.kind)
    owner = admin.site.get_model_admin(MODELS[kind])
    makes_one = record is None and kind is not RecordKind.SETTING
    return owner.has_change_permission(request) and (not makes_one or owner.has_add_permission(request))


def restoration_page(request: HttpRequest, event: AuditEvent) -> HttpResponse:
    """Show what restoring an entry's revision would change; do it when the answer comes back."""
    revision = event.revision
    if revision is None:
        raise Http404(f"entry {event.number} of the audit trail has no revision")
    record = find_record(revision)
    if not may_restore(request, revision, record):
        raise PermissionDenied
    form, complaints = RestorationForm(request.POST or None), []
    if form.is_valid():
        try:
            return _restore(request, revision, form)
        except ValidationError as refused:
            complaints = _words_of(refused)
        except RecordMovedOn as moved_on:
            complaints = [f"Nothing was saved: {moved_on}. Below is what would change now."]
    seen, reasons = _look(request, revision)
    if seen is not None and not form.errors:
        form = RestorationForm(initial={"expected": seen.version, "reason": request.POST.get("reason", "")})
    context = {
        **admin.site.each_context(request),
        "title": f"Restore {revision.record} to revision {revision.number}",
        "opts": MODELS[RecordKind(revision.kind)]._meta,
        "original": record,
        "event": event,
        "revision": revision,
        "complaints": complaints or reasons,
        "seen": seen,
        "form": form,
        "back": _entry(event) if record is None else _page(revision, "history", record.pk),
        **({} if seen is None else _shown(revision, seen)),
    }
    return TemplateResponse(request, "admin/signalbox/restore.html", context)


def _restore(request: HttpRequest, revision: Revision, form: forms.Form) -> HttpResponse:
    """Restore, and go to the record."""
    answers = form.cleaned_data
    done = restore(revision, author=author_of(request), reason=answers["reason"], expected=answers["expected"])
    messages.success(request, f"{revision.record} is as revision {revision.number} says.")
    return HttpResponseRedirect(_page(revision, "change", done.pk))


def _look(request: HttpRequest, revision: Revision) -> tuple[Restoration | None, list[str]]:
    """What would change, or why nothing can."""
    try:
        return preview(revision, author=author_of(request)), []
    except ValidationError as refused:
        return None, _words_of(refused)


def _shown(revision: Revision, seen: Restoration) -> dict[str, Any]:
    """What would change and what stays, in words."""
    return {
        "differences": differences(revision.kind, seen.before, seen.after),
        "stays": [difference(revision.kind, field, *values) for field, values in seen.stays.items()],
    }


def _words_of(refused: ValidationError) -> list[str]:
    """What was refused, each complaint with the field it is about."""
    if not hasattr(refused, "error_dict"):
        return list(refused.messages)
    return [
        words if field == "__all__" else f"{field.replace('_', ' ').capitalize()}: {words}"
        for field, complaints in refused.message_dict.items()
        for words in complaints
    ]


def _page(revision: Revision, page: str, pk: Any) -> str:
    """The address of a page of the record."""
    options = MODELS[RecordKind(revision.kind)]._meta
    return reverse(f"admin:{options.app_label}_{options.model_name}_{page}", args=[pk])


def _entry(event: AuditEvent) -> str:
    """The address of an entry of the trail."""
    return reverse("admin:governance_auditevent_change", args=[event.pk])
