"""Tables called jobs.NAME, in the text of a query."""

from __future__ import annotations

import pytest

from master.spark.job_names import unknown_tables, view_of, with_views

THERE = {"hot", "errors", "my-job.x", "path"}.__contains__


@pytest.mark.parametrize(
    ("text", "changed", "names"),
    [
        ("SELECT * FROM jobs.hot h", "SELECT * FROM `jobs.hot` h", ["hot"]),
        ("SELECT jobs.hot.n FROM Jobs . hot", "SELECT `jobs.hot`.n FROM `jobs.hot`", ["hot"]),
        ("FROM jobs.`my-job.x`, `jobs`.`hot`", "FROM `jobs.my-job.x`, `jobs.hot`", ["my-job.x", "hot"]),
        ("SELECT 'jobs.hot', \"jobs.hot\", jobs.hit", None, []),
        ("SELECT 'it''s jobs.hot \\' jobs.hot' -- jobs.hot\n/* jobs.hot */", None, []),
        ("SELECT xjobs.hot, a.jobs.hot, `jobs.hot`, `a jobs.hot`", None, []),
        ("FROM jobs.hotter, jobs.other", None, []),
    ],
)
def test_tables_become_views(text: str, changed: str | None, names: list[str]) -> None:
    assert with_views(text, THERE) == (changed or text, names)


def test_views_are_quoted() -> None:
    assert view_of("a`b") == "`jobs.a``b`"


def test_what_is_no_job_is_found_where_tables_stand() -> None:
    assert unknown_tables("SELECT jobs.n FROM jobs.hot JOIN jobs.hit ON 1 = 1, jobs.`a-b`", THERE) == ["hit", "a-b"]
    assert unknown_tables("SELECT * FROM jobs.my-job", THERE) == ["my-job"]


def test_strings_and_comments_name_no_job() -> None:
    text = "SELECT 'from jobs.hit', \"join jobs.hit\" FROM jobs.hot -- from jobs.hit\n/* FROM jobs.hit */ JOIN jobs.`a``b`"
    assert unknown_tables(text, THERE) == ["a`b"]
