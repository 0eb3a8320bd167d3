"""What the live page shows and says, in a headless Chromium before nodes without a core: values, troubles, dialogs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from master.api_options import ApiOptions
from master.requests import Refusal
from srt.ids import job_key
from tests.browser import CONTROL, SHIFT, Browser, Tab, chromium
from tests.memory_fleet import EPOCH_US, SQL, Client, with_fleet

pytestmark = pytest.mark.skipif(chromium() is None, reason="there is no Chromium on this machine")
CELLS = "[...document.querySelectorAll('tbody tr')].map((row) => [...row.cells].map((one) => one.innerText))"
FOCUSED = "document.activeElement.innerText"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


def on_page(
    browser: Browser,
    use: Callable[[Client, Tab], Awaitable[None]],
    path: str = "/#/jobs/hot",
    **arguments: Any,
) -> None:
    """Runs a test with a page before a fleet of one node with a job `hot`. The page may complain of nothing."""

    async def main(client: Client) -> None:
        if "options" not in arguments:
            await client.submit()
        async with browser.tab(client.running.url() + path) as tab:
            await use(client, tab)
            assert tab.complaints == []

    with_fleet(main, **arguments)


def test_values_are_shown_as_what_they_are(browser: Browser) -> None:
    names = ["path", "hits", "cost", "p99", "quantiles"]
    types = ["STRING", "BIGINT", "DECIMAL(18,6)", "DOUBLE", "ARRAY<DOUBLE>"]
    columns = list(zip(names, types, strict=True))
    attack = "<img src=x onerror=\"document.title='owned'\">"
    rows: list[list[Any]] = [
        [attack, 2**53 + 1, "2.549000", 0.00012, [0.022, None]],
        [None, None, None, "NaN", None],
        ["", 0, "-1000000.100000", -1.5, []],
    ]

    async def use(client: Client, tab: Tab) -> None:
        client.fleet.publish("hot", 10, rows, columns=columns)
        client.fleet.publish("hot", 20, rows, columns=columns, plan=2)
        await tab.until("document.querySelectorAll('tbody tr').length === 3")
        shown = await tab.evaluate(CELLS)
        assert shown == [
            [attack, "9,007,199,254,740,993", "2.549", "0.00012", "[0.022, NULL]"],
            ["NULL", "NULL", "NULL", "NaN", "NULL"],
            ["empty", "0", "-1000000.1", "-1.5", "[]"],
        ]
        assert await tab.evaluate("document.querySelectorAll('main img').length") == 0
        numbers = "[...document.querySelectorAll('th.number')].map((one) => one.innerText)"
        assert await tab.evaluate(numbers) == ["hits", "cost", "p99"]
        await tab.until("document.querySelector('.chart .mark')")
        assert await tab.evaluate("document.querySelector('.chart .mark + text').textContent") == "revision 2"

    on_page(browser, use)


def test_groups_by_a_number_have_a_line_each_with_gaps(browser: Browser) -> None:
    columns = [("status", "BIGINT"), ("n", "BIGINT")]

    async def use(client: Client, tab: Tab) -> None:
        for start, rows in ((10, [[200, 5], [404, 2]]), (20, [[200, 6]]), (30, [[200, 7], [404, 1]])):
            client.fleet.publish("hot", start, rows, columns=columns)
        await tab.until("document.querySelectorAll('.chart .dot').length === 5")
        assert (await tab.text(".legend")).split() == ["200", "404"]
        drawn = "[...document.querySelectorAll('.line:not(.tentative)')].map((one) => one.getAttribute('d'))"
        assert [path.count("L") for path in await tab.evaluate(drawn)] == [2, 0]

    on_page(browser, use)


def test_the_window_that_is_picked_stays(browser: Browser) -> None:
    async def use(client: Client, tab: Tab) -> None:
        for number in range(1, 4):
            client.fleet.publish("hot", 10 * number, [[f"/{number}", number]])
        await tab.until(f"{CELLS}[0][0] === '/3'")
        await tab.focus("select[aria-label=Window]")
        await tab.press("ArrowDown")
        await tab.press("ArrowDown")
        await tab.until(f"{CELLS}[0][0] === '/2'")
        client.fleet.publish("hot", 40, [["/4", 4]])
        client.fleet.publish("hot", 20, [["/2", 5]], edition=2)
        await tab.until(f"{CELLS}[0][1] === '5'")
        assert await tab.evaluate("document.activeElement.ariaLabel") == "Window"

    on_page(browser, use)


def test_a_change_of_somebody_else_is_told_and_nothing_typed_is_lost(browser: Browser) -> None:
    theirs, mine = SQL.replace("LIMIT 5", "LIMIT 6"), SQL.replace("LIMIT 5", "LIMIT 7")

    async def use(client: Client, tab: Tab) -> None:
        await tab.shows("Understood", ".verdict")
        await tab.type(mine, into="#sql")
        answer = await client("PATCH", "/v1/jobs/hot", json={"sql": theirs}, headers={"If-Match": '"1"'})
        assert answer.status == 200
        await tab.press("Enter", CONTROL)
        await tab.shows("Somebody else changed this job: it is at revision 2 now.", ".notes")
        assert await tab.evaluate("document.querySelector('#sql').value") == mine
        job = client.fleet.jobs[job_key("hot")]
        assert len(job.revisions) == 2
        await tab.click(".notes button:nth-of-type(2)")
        await tab.focus("#sql")
        await tab.press("Enter", CONTROL)
        await tab.shows("Revision 3 is on its way", ".notes")
        assert [one.sql for one in job.revisions] == [SQL, theirs, mine]
        await tab.type("SELECT 1", into="#sql")
        await client("PATCH", "/v1/jobs/hot", json={"sql": theirs}, headers={"If-Match": '"3"'})
        await tab.shows("it is at revision 4 now", ".notes")
        await tab.click(".notes button")
        await tab.until(f"document.querySelector('#sql').value === `{theirs}`")

    on_page(browser, use)


def test_a_refused_setting_is_named_and_gets_the_caret(browser: Browser) -> None:
    async def use(client: Client, tab: Tab) -> None:
        await tab.shows("Understood", ".verdict")
        await tab.click("details:has(.settings) summary")
        await tab.type("5x", into="#set-emit")
        await tab.shows("emit: '5x' is no duration", ".verdict")
        await tab.focus("#sql")
        await tab.press("Enter", CONTROL)
        await tab.until(
            "document.activeElement.id === 'set-emit' && document.activeElement.ariaInvalid === 'true'"
        )
        await tab.type("1s", into="#set-emit")
        await tab.press("Enter")
        await tab.shows("emit 500ms to 1s", ".changes")
        assert client.fleet.jobs[job_key("hot")].revisions[-1].settings["emit"] == "1s"

    on_page(browser, use)


def test_an_agent_that_is_missing_can_be_given_up(browser: Browser) -> None:
    async def use(client: Client, tab: Tab) -> None:
        client.fleet.publish("hot", 10, [["/", 1]], "tentative")
        await tab.shows("1 of 2", "dl")
        await tab.click("[data-key='forget web3']")
        await tab.shows("Go on without web3?", "dialog[open]")
        await tab.press("Enter")
        await tab.until("!document.querySelector('dialog[open]')")
        await tab.asks("/v1/jobs/hot")
        assert client.fleet.jobs[job_key("hot")].forgotten == ["web3"]

    on_page(browser, use)


def test_a_number_that_is_a_key_has_no_bar(browser: Browser) -> None:
    """Status 500 is not more than status 200."""
    shares = "[...document.querySelectorAll('tbody .bar')].map((one) => one.style.getPropertyValue('--share'))"

    async def use(client: Client, tab: Tab) -> None:
        client.fleet.publish("hot", 10, [[200, 5], [500, 2]], columns=[("path", "BIGINT"), ("hits", "BIGINT")])
        await tab.until(f"String({shares}) === '0%,100%,0%,40%'")

    on_page(browser, use)


def test_a_job_shows_what_it_does_a_second(browser: Browser) -> None:
    async def use(client: Client, tab: Tab) -> None:
        client.fleet.publish("hot", 10, [["/", 1]])
        pairs = "[...document.querySelectorAll('dl div')].map(({ children }) => [...children].map((one) => one.innerText))"
        facts = f"Object.fromEntries({pairs})"
        await tab.until(f"({facts})['lines/s']")
        shown = await tab.evaluate(facts)
        assert {name: text for name, text in shown.items() if name.endswith("/s")} == {
            "lines/s": "1,100", "rejected/s": "8.8", "results/s": "0.4",
        }  # fmt: skip

    on_page(browser, use)


def test_an_agent_that_holds_windows_up_is_named(browser: Browser) -> None:
    async def use(client: Client, tab: Tab) -> None:
        client.fleet.publish("hot", 10, [["/", 1]])
        await tab.shows("live", "dl")
        assert "wait for" not in await tab.text("main")
        client.fleet.waits_for = (("web2", EPOCH_US),)
        await tab.shows("Final windows wait for web2, which is at", "main")
        await tab.shows("0 of 2", "dl")  # web3 is missing from the window
        await tab.focus("[data-key='forget web2']")

    on_page(browser, use)


def test_a_job_that_nobody_leads_is_marked_and_keeps_its_rows(browser: Browser) -> None:
    why = Refusal("leaderless", "no leader: 1 of 3 members answers, not 10.0.0.7:7117")

    async def use(client: Client, tab: Tab) -> None:
        client.fleet.publish("hot", 10, [["/", 1]])
        await tab.until(f"{CELLS}.length === 1")
        client.fleet.refused = why
        await tab.shows("no leader", ".head h1")
        await tab.shows("1 of 3 members answers, not 10.0.0.7:7117. It goes on when", ".head")
        await tab.asks("/v1/nodes", 2)
        assert (await tab.text("#fleet")).startswith("1 agent, 0 workers")
        assert await tab.evaluate(CELLS) == [["/", "1"]]
        await tab.evaluate("location.hash = '#/'")
        await tab.shows("1 of 3 members answers, not 10.0.0.7:7117", "tbody")
        await tab.evaluate("location.hash = '#/jobs/hot'")
        await tab.shows("1 of 3 members answers", ".head")
        client.fleet.refused = None
        await tab.shows("running", ".head h1")
        await tab.evaluate("location.hash = '#/'")
        await tab.until(f"{CELLS}[0]?.[1] === 'running'")

    on_page(browser, use)


def test_the_list_keeps_the_focus_while_it_changes(browser: Browser) -> None:
    async def use(client: Client, tab: Tab) -> None:
        await tab.focus("main a")
        assert await tab.evaluate(FOCUSED) == "hot"
        await client.submit("another")
        await tab.shows("another", "main")
        assert await tab.evaluate(FOCUSED) == "hot"
        await tab.press("Tab", SHIFT)
        assert await tab.evaluate(FOCUSED) == "another"
        await tab.press("Enter")
        await tab.shows("another", "h1")
        assert await tab.evaluate("document.querySelector('[aria-current=page]').innerText") == "Jobs"

    on_page(browser, use, path="/")


def test_without_an_answer_the_page_says_so_and_keeps_what_it_has(browser: Browser) -> None:
    async def use(client: Client, tab: Tab) -> None:
        client.fleet.publish("hot", 10, [["/", 1]])
        await tab.until(f"{CELLS}.length === 1")
        await client.running.kill(0)
        await tab.shows("No node answers at this address. Trying again.", "header")
        await tab.shows("no connection; trying again", "dl")
        assert await tab.evaluate(CELLS) == [["/", "1"]]

    on_page(browser, use)


def test_a_job_that_somebody_removes_is_said_to_be_gone(browser: Browser) -> None:
    async def use(client: Client, tab: Tab) -> None:
        await tab.shows("running", ".head")
        await client("DELETE", "/v1/jobs/hot")
        await tab.shows("This job has been removed.", ".head")
        await tab.click(".head a")
        await tab.shows("No job runs yet.")
        await tab.evaluate("location.hash = '#/jobs/%E0%A4%A'")  # no text at all
        await tab.shows("There is no such job.", ".head")

    on_page(browser, use)


def test_the_token_is_asked_for_and_the_question_can_be_left(browser: Browser) -> None:
    async def use(client: Client, tab: Tab) -> None:
        await tab.until("document.activeElement.id === 'token'")
        await tab.type("wrong")
        await tab.press("Enter")
        await tab.until(
            "!document.getElementById('token-refused').hidden && document.querySelector('dialog').open"
        )
        await tab.press("Escape")
        await tab.shows("This fleet asks for a token.", "header")
        await tab.asks("/v1/nodes", 2)
        assert not await tab.evaluate("document.querySelector('dialog').open")
        await tab.click("[data-key=token]")
        await tab.until("document.querySelector('dialog').open")
        await tab.type("secret")
        await tab.press("Enter")
        await tab.shows("1 agent", "header")
        await tab.shows("No job runs yet.")
        assert "secret" not in await tab.evaluate("location.href")

    on_page(browser, use, path="/", options=ApiOptions(token="secret"))


def test_a_derived_job_shows_its_windows_and_has_nothing_to_change(browser: Browser) -> None:
    columns = [("path", "STRING"), ("n", "BIGINT")]
    derived = {"columns": [{"name": name, "type": type} for name, type in columns], "size": "10s", "text": "a join"}

    async def use(client: Client, tab: Tab) -> None:
        await client("POST", "/v1/jobs", json={"name": "both", "derived": derived})
        client.fleet.publish("both", 10, [["/", 7]], columns=columns)
        await tab.evaluate("location.hash = '#/jobs/both'")
        await tab.until("document.querySelectorAll('tbody tr').length === 1")
        assert await tab.evaluate(CELLS) == [["/", "7"]]
        await tab.until("document.body.innerText.includes('Its windows are computed elsewhere: a join')")
        assert await tab.evaluate("[...document.querySelectorAll('main form')].every((one) => one.hidden)")
        assert "Copy" not in await tab.evaluate("document.querySelector('.head').innerText")
        await tab.evaluate("location.hash = '#/'")
        await tab.until("document.querySelectorAll('tbody tr').length === 2")
        assert [row[2] for row in await tab.evaluate(CELLS)] == ["derived", "access"]

    on_page(browser, use)


def test_a_job_can_be_copied(browser: Browser) -> None:
    async def use(client: Client, tab: Tab) -> None:
        await tab.click("[data-key=copy]")
        # The job's own page has a #sql as well, but no #name.
        await tab.until("document.querySelector('#name') && document.querySelector('#sql').value")
        assert await tab.evaluate("document.querySelector('#sql').value") == SQL
        await tab.type("hot2", into="#name")
        await tab.press("Enter")
        await tab.shows("hot2", ".head h1")
        first, second = (client.fleet.jobs[job_key(name)].first for name in ("hot", "hot2"))
        assert (first.sql, first.settings) == (second.sql, second.settings)

    on_page(browser, use)
