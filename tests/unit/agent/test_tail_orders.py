"""Orders of file events that were once got wrong, shrunk by the property test: each line once, or counted as missing."""

from __future__ import annotations

import pytest

from tests.property.test_tail_property import TailMachine

NONE, SHORT, LONG = b"", b"#head\n", b"#Software: a head that all logs share\n"
LOG, OTHER = "access.log", "other.log"

Step = tuple[str, dict[str, object]]


def step(method: str, /, **arguments: object) -> Step:
    return method, arguments


ORDERS: dict[str, tuple[bytes, list[Step]]] = {
    "the copy of a log that was cut and deleted after a restart": (NONE, [
        step("write", count=1, name=LOG),
        step("poll"),
        step("restart"),
        step("copy", share=0.3),
        step("truncate"),
        step("delete", number=0),
    ]),
    "the copy of a log that was cut and deleted before the copy was whole": (NONE, [
        step("write", count=1, name=LOG),
        step("copy", share=0.3),
        step("poll"),
        step("truncate"),
        step("delete", number=0),
    ]),
    "a file that began like a log, of whose head more is known by then": (SHORT, [
        step("poll"),
        step("restart"),
        step("write_half"),
        step("reopen"),
        step("write_half"),
        step("write", count=2, name=OTHER),
        step("poll"),
        step("restart"),
    ]),
    "half a line longer than a proof that grows while it is read": (NONE, [
        step("copy", share=0.3),
        step("poll"),
        step("write_half"),
        step("reopen"),
        step("write_half"),
        step("reopen"),
        step("hint"),
        step("write_half"),
        step("reopen"),
        step("write_half"),
        step("poll"),
    ]),
    "two logs with one head of which one is cut": (LONG, [
        step("write", count=1, name=LOG),
        step("rotate", at_once=True),
        step("write", count=1, name=LOG),
        step("poll"),
        step("cut"),
    ]),
    "a copy beside a log in an inode used again": (NONE, [
        step("rotate", at_once=False),
        step("list"),
        step("reopen"),
        step("delete", number=1),
        step("rotate", at_once=True),
        step("write", count=1, name=LOG),
        step("poll"),
        step("copy", share=0.3),
        step("list"),
    ]),
    "an archive under way is no reason to leave its source unread": (SHORT, [
        step("link"),
        step("delete", number=0),
        step("poll"),
        step("reopen"),
        step("list"),
        step("write_half"),
        step("write_half"),
        step("rotate", at_once=False),
        step("list"),
        step("compress", complete=False, number=1),
        step("poll"),
        step("rotate", at_once=False),
        step("delete", number=2),
    ]),
    "another log appears when one that holds but its head is cut": (SHORT, [
        step("poll"),
        step("write", count=1, name=LOG),
        step("hint"),
        step("write", count=1, name=OTHER),
        step("cut"),
    ]),
    "an archive that only begins like a longer log": (LONG, [
        step("rotate", at_once=False),
        step("write", count=1, name=LOG),
        step("compress", complete=False, number=1),
        step("write_half"),
        step("compressed", number=1),
    ]),
    "the gap of a log cut over a restart is counted": (NONE, [
        step("write", count=1, name=LOG),
        step("copy", share=0.3),
        step("write", count=1, name=LOG),
        step("poll"),
        step("write", count=1, name=LOG),
        step("hint"),
        step("truncate"),
        step("restart"),
    ]),
    "the log was renamed when its copy was found": (NONE, [
        step("write", count=1, name=LOG),
        step("poll"),
        step("copy", share=0.3),
        step("truncate"),
        step("rotate", at_once=False),
        step("hint"),
    ]),
    "the log has another link when its copy was found": (NONE, [
        step("write_half"),
        step("write_half"),
        step("poll"),
        step("copy", share=0.3),
        step("link"),
        step("truncate"),
        step("delete", number=0),
    ]),
    "a file deleted while it is judged": (SHORT, [
        step("rotate", at_once=False),
        step("list"),
        step("reopen"),
        step("poll"),
        step("write", count=1, name=LOG),
        step("list"),
        step("delete", number=0),
        step("hint"),
    ]),
    "half a line of a copy is no log": (LONG, [
        step("rotate", at_once=False),
        step("poll"),
        step("reopen"),
        step("write", count=1, name=LOG),
        step("copy", share=0.3),
        step("poll"),
    ]),
    "a copy is read first because its log may not be opened": (NONE, [
        step("write", count=1, name=LOG),
        step("copy", share=0.3),
        step("permit", number=0, readable=False),
        step("poll"),
        step("permit", number=0, readable=True),
        step("restart"),
        step("poll"),
    ]),
    "a copy is found first because an inode is used again": (NONE, [
        step("copy", share=0.3),
        step("list"),
        step("truncate"),
        step("rotate", at_once=True),
        step("copy", share=0.3),
        step("truncate"),
        step("write", count=1, name=LOG),
        step("copy", share=0.3),
        step("poll"),
    ]),
    "a held copy stays one when all names move": (NONE, [
        step("write", count=1, name=LOG),
        step("copy", share=1.0),
        step("poll"),
        step("truncate"),
        step("rotate", at_once=False),
    ]),
    "a log that only begins like an archive": (LONG, [
        step("rotate", at_once=False),
        step("permit", number=1, readable=False),
        step("write", count=1, name=OTHER),
        step("write", count=1, name=LOG),
        step("compress", number=1, complete=True),
        step("cut"),
        step("poll"),
    ]),
    "the log of an archive went on in another file": (LONG, [
        step("poll"),
        step("rotate", at_once=False),
        step("write", count=1, name=LOG),
        step("restart"),
        step("compress", number=1, complete=True),
        step("compressed", number=1),
        step("write", count=1, name=LOG),
    ]),
    "an archive longer than a log with half a line": (LONG, [
        step("write", count=1, name=LOG),
        step("rotate", at_once=True),
        step("write_half"),
        step("rotate", at_once=False),
        step("compress", number=2, complete=True),
        step("compressed", number=2),
        step("reopen"),
    ]),
    "a short copy deleted half read": (NONE, [
        step("write_half"),
        step("write_half"),
        step("copy", share=0.3),
        step("poll"),
        step("truncate"),
        step("delete", number=1),
        step("rotate", at_once=True),
    ]),
    "whole at first and not when the log was read on": (LONG, [
        step("poll"),
        step("write_half"),
        step("rotate", at_once=True),
        step("write", count=2, name=LOG),
        step("restart"),
        step("write", count=1, name=LOG),
        step("write_half"),
        step("rotate", at_once=False),
        step("write_half"),
        step("compress", number=1, complete=True),
        step("write", count=1, name=OTHER),
        step("compressed", number=1),
        step("write", count=1, name=LOG),
    ]),
    "a long half line of a copy is no log": (LONG, [
        step("copy", share=1.0),
        step("truncate"),
        step("poll"),
        step("restart"),
        step("rotate", at_once=False),
        step("reopen"),
        step("write", count=3, name=LOG),
        step("copy", share=0.3),
        step("poll"),
    ]),
    "a copy keeps to the log it was compared with": (LONG, [
        step("write", count=1, name=LOG),
        step("copy", share=0.3),
        step("write", count=6, name=LOG),
        step("poll"),
        step("truncate"),
        step("rotate", at_once=True),
    ]),
    "what a short file resembles is gone": (LONG, [
        step("copy", share=0.3),
        step("write", count=3, name=LOG),
        step("poll"),
        step("write", count=1, name=OTHER),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_once_got_wrong(name: str) -> None:
    head, steps = ORDERS[name]
    machine = TailMachine()
    machine.begin(head)
    for method, arguments in steps:
        getattr(machine, method)(**arguments)
    machine.teardown()
