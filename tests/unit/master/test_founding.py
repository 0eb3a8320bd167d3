"""Jobs that are to be made: who is asked, and when they are refused."""

from __future__ import annotations

from master.founding import Foundings
from master.group_messages import Seek, Sought
from master.job_events import Overload
from master.requests import Answer, Ask, DescribeJob
from srt.automaton import NEVER, Ref, Send

KEY = bytes(16)
NEAR = [Ref(bytes([number] * 16), f"host{number}:1", 1) for number in (1, 2)]
ASK = Ask(7, KEY, DescribeJob())


def begun() -> Foundings:
    foundings = Foundings()
    assert foundings.begin(ASK, NEAR, 5.0) == [Send(ref, Seek(KEY)) for ref in NEAR]
    return foundings


def refusal(answers: list[Answer]) -> tuple[int, str, Ref | None]:
    (answer,) = answers
    return answer.token, answer.body.kind, answer.body.master


def test_it_is_due_when_all_have_answered_or_at_its_time() -> None:
    foundings = begun()
    assert foundings.due(4.9) == []
    assert foundings.heard(NEAR[0], Sought(KEY, None)) == []
    assert foundings.due(4.9) == []
    assert foundings.heard(NEAR[1], Sought(KEY, None)) == []
    assert foundings.due(0.0) == [KEY]
    assert begun().due(5.0) == [KEY]
    assert foundings.end(KEY) == [ASK]
    assert foundings.due_s == NEVER


def test_a_job_that_is_there_is_told_who_leads_it() -> None:
    foundings = begun()
    assert refusal(foundings.heard(NEAR[0], Sought(KEY, NEAR[1]))) == (7, "elsewhere", NEAR[1])
    assert KEY not in foundings
    assert foundings.heard(NEAR[1], Sought(KEY, None)) == []


def test_none_is_made_when_one_that_may_be_in_its_group_is_overloaded() -> None:
    foundings = begun()
    answers = foundings.heard(NEAR[0], Sought(KEY, None, overloaded=True))
    assert refusal(answers) == (7, "overloaded", None)
    assert "host1:1 has too much to do" in answers[0].body.detail
    assert KEY not in foundings


def test_none_is_made_while_the_node_is_late() -> None:
    foundings = Foundings()
    assert foundings.refused(ASK) == []
    foundings.overload = Overload(0.84)
    assert foundings.is_late
    answers = foundings.refused(ASK)
    assert refusal(answers) == (7, "overloaded", None)
    assert "this node is 0.8 s late" in answers[0].body.detail


def test_none_is_made_while_the_node_has_no_time_to_spare() -> None:
    foundings = Foundings()
    foundings.overload = Overload(0.0, 0.81)
    assert foundings.is_overloaded
    assert not foundings.is_late  # it may lead what there is
    answers = foundings.refused(ASK)
    assert refusal(answers) == (7, "overloaded", None)
    assert "this node works 81% of the time" in answers[0].body.detail
