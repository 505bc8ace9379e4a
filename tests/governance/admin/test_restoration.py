"""Going back to an earlier revision in the admin: seen before it is done, done by an operator, not by an auditor."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from governance.audit.actions import RecordKind
from governance.audit.trail import verify
from governance.changes.descriptions import describe
from governance.changes.records import remove_evaluation, retire, save_evaluation, save_record
from governance.changes.restoration import MODELS, find_record, restore
from governance.models import AuditEvent, Revision
from routing.models import EvaluationResult, LanguageModel
from tests.authors import SOMEBODY
from tests.factories import EvaluationResultFactory, LanguageModelFactory
from tests.governance.admin.pages import sent_by, text_of, words_of
from tests.governance.changes.test_restoration import CHANGED, SPRING


def entry(record: str, number: int) -> AuditEvent:
    event: AuditEvent = AuditEvent.objects.select_related("revision").get(record=record, revision__number=number)
    return event


def address(record: str, number: int) -> str:
    return reverse("admin:governance_auditevent_restore", args=[entry(record, number).pk])


def page_of(kind: RecordKind, name: str, page: str) -> str:
    """The address of a page of a record that is there."""
    record = find_record(Revision.objects.get(record=name, number=1))
    assert record is not None
    options = MODELS[kind]._meta
    return reverse(f"admin:{options.app_label}_{options.model_name}_{page}", args=[record.pk])


def alert(response: Any) -> str:
    """What the page refuses."""
    _, _, rest = words_of(response).partition('role="alert"')
    return rest.partition("</div>")[0]


@pytest.mark.parametrize("kind", CHANGED)
def test_an_operator_goes_back_from_the_history_of_a_record(kind: RecordKind, operator: Client) -> None:
    name = CHANGED[kind]()
    history = text_of(operator.get(page_of(kind, name, "history")))
    assert address(name, 1) in history
    assert address(name, 2) not in history, "it is so already"
    seen = operator.get(address(name, 1))
    assert "What would change" in text_of(seen)
    assert AuditEvent.objects.filter(record=name).count() == 2, "looking changes nothing"
    answer = operator.post(address(name, 1), sent_by(seen, reason="It was better."))
    assert (answer.status_code, answer.headers["Location"]) == (302, page_of(kind, name, "change"))
    record = find_record(Revision.objects.get(record=name, number=1))
    assert record is not None
    assert describe(kind, record.pk) == entry(name, 1).revision.after  # type: ignore[union-attr]
    last = entry(name, 3)
    assert (last.action, last.author, last.channel) == ("restored", "olivia", "admin")
    assert last.reason == "Revision 1 restored. It was better."
    history = text_of(operator.get(page_of(kind, name, "history")))
    assert "3. Restored" in history
    assert address(name, 2) in history
    assert address(name, 1) not in history
    assert verify().flaws == ()


@pytest.mark.parametrize("kind", CHANGED)
def test_an_auditor_sees_what_was_restored_and_restores_nothing(kind: RecordKind, auditor: Client) -> None:
    name = CHANGED[kind]()
    restore(Revision.objects.get(record=name, number=1), author=SOMEBODY)
    history = text_of(auditor.get(page_of(kind, name, "history")))
    assert "3. Restored" in history
    for number in (1, 2, 3):
        assert address(name, number) not in history
        assert "/restore/" not in text_of(auditor.get(reverse("admin:governance_auditevent_change", args=[number])))
        assert auditor.get(address(name, number)).status_code == 403
        assert auditor.post(address(name, number), {"expected": "x"}).status_code == 403
    assert AuditEvent.objects.filter(record=name).count() == 3


def test_what_would_change_is_in_words(operator: Client) -> None:
    name = CHANGED[RecordKind.PROVIDER]()
    shown = words_of(operator.get(address(name, 1)))
    for row in (
        '<th scope="row">base URL</th> <td class="sb-before sb-break" data-label="Now">https://llm.example.com/v1</td>',
        '<th scope="row">connect timeout</th> <td class="sb-before sb-break" data-label="Now">7.00</td>',
    ):
        assert row in shown


def test_a_retired_record_offers_no_way_back_and_says_why(operator: Client) -> None:
    name = CHANGED[RecordKind.APPLICATION]()
    retire(find_record(entry(name, 1).revision), author=SOMEBODY)  # type: ignore[arg-type]
    assert "/restore/" not in text_of(operator.get(page_of(RecordKind.APPLICATION, name, "history")))
    refused = operator.get(address(name, 1))
    assert "web-shop is retired: bring it back first, then restore it." in alert(refused)
    assert 'name="expected"' not in text_of(refused)
    assert operator.post(address(name, 1), {"expected": "x"}).status_code == 200
    assert entry(name, 3).action == "retired"


def test_a_broken_rule_is_named_with_its_field(operator: Client) -> None:
    name = CHANGED[RecordKind.MODEL]()
    retire(LanguageModel.objects.get(identifier=name).provider.__class__.objects.get(identifier="lab"), author=SOMEBODY)
    assert "Provider: lab is retired; bring it back first, or choose another." in alert(operator.get(address(name, 1)))


def test_what_somebody_changed_meanwhile_is_shown_before_it_is_undone(operator: Client) -> None:
    name = CHANGED[RecordKind.MODEL]()
    sent = sent_by(operator.get(address(name, 1)), reason="It was better.")
    model = LanguageModel.objects.get(identifier=name)
    model.name = "Wise and slow"
    save_record(model, author=SOMEBODY, only=["name"])
    again = operator.post(address(name, 1), sent)
    assert "wise was changed by somebody else meanwhile" in alert(again)
    assert "Wise and slow" in text_of(again)
    assert not AuditEvent.objects.filter(action="restored").exists()
    assert sent_by(again)["reason"] == ["It was better."]
    assert operator.post(address(name, 1), sent_by(again)).status_code == 302
    assert LanguageModel.objects.get(identifier=name).name == ""


def test_a_reason_that_is_too_long_is_said_beside_it(operator: Client) -> None:
    name = CHANGED[RecordKind.SETTING]()
    answer = operator.post(address(name, 1), sent_by(operator.get(address(name, 1)), reason="x" * 451))
    assert "at most 450 characters" in text_of(answer)
    assert AuditEvent.objects.count() == 2


def test_a_removed_result_comes_back_from_the_entry_of_its_removal(operator: Client, staff: Any) -> None:
    name = CHANGED[RecordKind.EVALUATION]()
    remove_evaluation(EvaluationResult.objects.get(), author=SOMEBODY)
    removal = reverse("admin:governance_auditevent_change", args=[entry(name, 3).pk])
    assert address(name, 3) in text_of(operator.get(removal))
    seen = operator.get(address(name, 3))
    assert operator.post(address(name, 3), sent_by(seen)).status_code == 302
    assert EvaluationResult.objects.get().mean_score == 0.9
    assert address(name, 3) not in text_of(operator.get(removal)), "it is so already"
    # It is made anew, which takes the permission to make one.
    remove_evaluation(EvaluationResult.objects.get(), author=SOMEBODY)
    assert staff("change_evaluationresult", "view_evaluationresult").get(address(name, 3)).status_code == 403


def test_the_history_of_a_result_is_that_of_its_run(operator: Client) -> None:
    model = LanguageModelFactory.create()
    runs = [EvaluationResultFactory.build(model=model), EvaluationResultFactory.build(model=model, run_at=SPRING)]
    for run in runs:
        save_evaluation(run, author=SOMEBODY)
    page = operator.get(reverse("admin:routing_evaluationresult_history", args=[runs[1].pk]))
    assert "2. Created" in text_of(page)
    assert "1. Created" not in text_of(page)


def test_an_entry_that_is_not_there_cannot_be_restored(operator: Client) -> None:
    assert operator.get(reverse("admin:governance_auditevent_restore", args=[77])).status_code == 404
