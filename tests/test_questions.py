"""Questions to a core: answers, refusals, and what is given up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from elfstream import questions
from elfstream.questions import Bell, Questions
from master.requests import Answer, Ask, FindMaster, MasterAt, Refusal
from master.service import Refused

KEY = bytes(16)


def test_each_question_gets_its_own_answer() -> None:
    async def run() -> list[Any]:
        asked: list[Ask] = []
        waiting = Questions(asked.append, asyncio.get_running_loop())
        first = asyncio.create_task(waiting.ask(KEY, FindMaster()))
        second = asyncio.create_task(waiting.ask(KEY, FindMaster()))
        await asyncio.sleep(0)
        waiting.answered(Answer(asked[1].token, MasterAt(None, False)))
        waiting.answered(Answer(asked[0].token, Refusal("busy", "no leader")))
        waiting.answered(Answer(999, None))
        return list(await asyncio.gather(first, second, return_exceptions=True))

    refused, found = asyncio.run(run())
    assert isinstance(refused, Refused)
    assert refused.refusal.kind == "busy"
    assert found == MasterAt(None, False)


def test_a_question_without_an_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "ASK_S", 0.01)

    async def run() -> None:
        waiting = Questions(lambda ask: None, asyncio.get_running_loop())
        with pytest.raises(TimeoutError):
            await waiting.ask(KEY, FindMaster())
        assert not waiting._waiting

    asyncio.run(run())


def test_too_many_questions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "WAITING_MAX", 0)

    async def run() -> None:
        with pytest.raises(Refused, match="wait for this node's core"):
            await Questions(lambda ask: None, asyncio.get_running_loop()).ask(KEY, FindMaster())

    asyncio.run(run())


def test_a_bell_wakes_who_waits_for_its_key_alone() -> None:
    async def run() -> tuple[bool, bool]:
        bell = Bell()
        mine = asyncio.create_task(bell.heard(KEY))
        other = asyncio.create_task(bell.heard(b"other"))
        await asyncio.sleep(0)
        bell.ring(KEY)
        await mine
        done = mine.done(), other.done()
        other.cancel()
        with pytest.raises(asyncio.CancelledError):
            await other
        assert not bell._waiting
        return done

    assert asyncio.run(run()) == (True, False)
