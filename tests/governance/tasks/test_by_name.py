"""Calls by name, from a program that knows nothing but the broker; and messages that come twice."""

from typing import Any
from uuid import uuid4

import pytest

from governance.models import SubmissionState
from governance.submissions.intake import cancel
from telemetry.models import Call
from tests.governance.tasks.installation import PROMPT, REQUEST, SAID, SECONDS, Installation
from tests.servers.web import wait_until
from tests.servers.worker import running_worker

pytestmark = pytest.mark.database


@pytest.mark.usefixtures("worker")
def test_a_call_by_name_gives_its_id_and_its_answer_can_be_read(installation: Installation) -> None:
    result = installation.call(user="agent-17", source="night-run").get(timeout=SECONDS)
    assert result == {"call": result["call"], "state": "done", "failure": None}
    read = installation.send("read_answer", kwargs={"application": "helpdesk", "call": result["call"]})
    answer = read.get(timeout=SECONDS)
    assert SAID in answer["answer"]["choices"][0]["message"]["content"]
    assert (answer["state"], answer["failure"]) == ("done", None)
    read.forget()
    with installation.web.records():
        wait_until(lambda: Call.objects.filter(pk=result["call"]).exists())
        call = Call.objects.get(pk=result["call"])
    assert (call.application, call.key, call.user, call.source) == ("helpdesk", "", "agent-17", "night-run")
    assert installation.asked == 1


@pytest.mark.usefixtures("worker")
def test_an_answer_can_be_read_by_the_task_that_asked(installation: Installation) -> None:
    task = f"nightly-{uuid4()}"
    installation.call(task=task).get(timeout=SECONDS)
    read = installation.send("read_answer", kwargs={"application": "helpdesk", "call": task}).get(timeout=SECONDS)
    assert read["answer"]["choices"]


@pytest.mark.usefixtures("worker")
def test_a_failed_call_is_a_result_and_no_failed_task(installation: Installation) -> None:
    installation.simulator.fail("401")
    result = installation.call().get(timeout=SECONDS)
    assert (result["state"], result["failure"]["kind"]) == ("failed", "auth")
    read = installation.send("read_answer", kwargs={"application": "helpdesk", "call": result["call"]})
    answer = read.get(timeout=SECONDS)
    assert answer["answer"] is None
    assert answer["failure"]["kind"] == "auth"
    assert answer["failure"]["message"]


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"application": "web-shop"}, "the application web-shop may not run tasks"),
        ({"application": "nonesuch"}, "the application nonesuch may not run tasks"),
        ({"request": {"model": "support-chat"}}, "messages: a list"),
        ({"request": {**REQUEST, "stream": True}}, "stream: a call that is handed in cannot be streamed"),
        ({"request": [REQUEST]}, "must be a JSON object"),
        ({"max_cost": "a lot"}, "max_cost: "),
        ({"max_cost": "-1"}, "max_cost: an amount cannot be negative"),
    ],
)
def test_what_cannot_be_handed_in_fails_the_task(
    installation: Installation, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(Exception, match=words) as refused:
        installation.call(**settings).get(timeout=SECONDS)
    assert type(refused.value).__name__ == "CallRefused"
    assert installation.asked == 0


@pytest.mark.usefixtures("worker")
def test_nobody_reads_the_answers_of_others(installation: Installation) -> None:
    result = installation.call().get(timeout=SECONDS)
    for application in ("web-shop", "nonesuch"):
        read = installation.send("read_answer", kwargs={"application": application, "call": result["call"]})
        with pytest.raises(Exception, match="may not run tasks") as refused:
            read.get(timeout=SECONDS)
        assert type(refused.value).__name__ == "SubmissionNotFound"


def test_what_was_said_is_in_the_message_that_brings_it_and_in_no_other(installation: Installation) -> None:
    """Neither in the broker, nor among results, nor in a log, even one that says everything."""
    installation.forget_results()
    sent = [installation.call(), installation.send("run_cal", kwargs={"request": REQUEST})]
    sent.append(installation.send("run_call", args=[PROMPT], kwargs={"nonsense": PROMPT}))
    assert PROMPT.encode() in installation.messages()
    with running_worker(installation.web) as running:
        result = sent[0].get(timeout=SECONDS)
        for each in sent[1:]:
            with pytest.raises(Exception, match=r"run_cal|argument"):
                each.get(timeout=SECONDS)
        wait_until(lambda: PROMPT.encode() not in installation.messages())  # acknowledged after its result is there
        assert SAID.encode() not in installation.messages()
        read = installation.send("read_answer", kwargs={"application": "helpdesk", "call": result["call"]})
        read.get(timeout=SECONDS)
        assert SAID.encode() in installation.messages()  # until it is forgotten, or has expired
        read.forget()
        assert SAID.encode() not in installation.messages()
        log = running.log
    assert "a message was discarded: there is no task 'signalbox.run_cal'" in log
    for word in (PROMPT, SAID):
        assert word not in log


@pytest.mark.usefixtures("worker")
def test_a_message_that_comes_twice_makes_one_call(installation: Installation) -> None:
    task = str(uuid4())
    results = [installation.call(task=task) for _ in range(3)]
    ends = [each.get(timeout=SECONDS) for each in results]
    submission = installation.row_of(task)
    again = installation.send("execute", args=[str(submission.pk)]).get(timeout=SECONDS)
    assert {each["call"] for each in (*ends, again)} == {str(submission.pk)}
    assert installation.asked == 1
    assert submission.deliveries == 1


@pytest.mark.usefixtures("worker")
def test_messages_at_once_make_one_call(installation: Installation) -> None:
    installation.simulator.set_behaviour(latency={"mean_ms": 500})
    submission = installation.hand_in()
    for _ in range(8):
        installation.send("execute", args=[str(submission)])
    installation.wait_for(submission, SubmissionState.DONE)
    assert installation.asked == 1


@pytest.mark.usefixtures("worker")
def test_a_call_whose_message_was_lost_is_sent_by_the_sweeper(installation: Installation) -> None:
    submission = installation.hand_in()
    installation.let_the_lease_lapse(submission)
    installation.send("sweep")
    assert installation.wait_for(submission, SubmissionState.DONE).deliveries == 1
    assert installation.asked == 1


def test_a_task_whose_call_was_withdrawn_is_told_so(installation: Installation) -> None:
    result = installation.call()
    with running_worker(installation.web, application="tests.servers.sealing_worker"):
        submission = installation.row_of(result.id)
        with installation.web.records():
            assert cancel(submission.pk)
    with running_worker(installation.web):
        assert result.get(timeout=SECONDS)["state"] == "cancelled"
    assert installation.asked == 0
