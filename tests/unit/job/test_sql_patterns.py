"""Regular expressions: what is accepted, and the form Java is given."""

from __future__ import annotations

import importlib.util

import pytest

from job.sql.patterns import check_regex, group_count, java_pattern, like_problem

HAVE_RE2 = importlib.util.find_spec("re2") is not None


@pytest.mark.parametrize(
    ("pattern", "java"),
    [
        ("^/a.*b$", r"^/a.*b\z"),
        (r"\d+\.\w{2,3}?", r"\d+\.\w{2,3}?"),
        (r"a\sb\S", r"a[\t\n\f\r ]b[^\t\n\f\r ]"),
        (r"[\s,]", r"[\t\n\f\r ,]"),
        ("(?i)bot|(?s:.)", r"(?iu)bot|(?s:.)"),
        ("(?i-s:x)", "(?iu-s:x)"),
        ("[a-z&^-]", r"[a-z\&\^\-]"),
        ("[^/]+", "[^/]+"),
        (r"\x41\x{1F600}", r"\x41\x{1F600}"),
        ("a{2}{", None),
        ("(a|b)+?c", "(a|b)+?c"),
        (r"\/\-\ ", r"\/\-\ "),
        ("}]", "}]"),
        ("ü", "ü"),
    ],
)
def test_java_is_told_what_re2_understands(pattern: str, java: str | None) -> None:
    if java is None:
        with pytest.raises(ValueError):
            java_pattern(pattern)
        return
    check_regex(pattern)
    assert java_pattern(pattern) == "(?d)" + java


def test_word_edges_are_those_of_ascii() -> None:
    assert "(?<=[0-9A-Za-z_])" in java_pattern(r"\bx\B")


@pytest.mark.parametrize(
    "pattern",
    [
        "(?=x)", "(?!x)", "(?<=x)", "(?<!x)", "(?>x)", "(?<n>x)", "(?P<n>x)", "(?m)x", "(?x)x", "(?)",
        r"(a)\1", r"\Zx", r"\Gx", r"\Qx\E", r"\pL", r"\p{Greek}", r"\h", r"\v", r"\R", r"\u0041", r"\0", r"\e",
        r"\x{110000}", "a++", "a*+", "a**", "a{1}{2}", "*a", "(*a)", "a|*", "^*", "a{2,1}", "a{1001}", "a{x", "{",
        "[", "[]", "[]a]", "[[:alpha:]]", "[a[b]]", "[a&&b]", r"[a-\d]", r"[\d-z]", r"[\b]", "(", ")", "a)", "\\",
        "x" * 5000,
    ],
)  # fmt: skip
def test_what_the_engines_read_differently_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError):
        check_regex(pattern)


@pytest.mark.skipif(not HAVE_RE2, reason="google-re2 is not installed")
def test_re2_has_the_last_word() -> None:
    with pytest.raises(ValueError, match="cannot be compiled"):
        check_regex("[z-a]")
    with pytest.raises(ValueError, match="cannot be compiled"):
        check_regex("((a{100}){100}){100}")


def test_groups_are_counted() -> None:
    assert group_count(r"(a(b))(?:c)\((?i:d)[(]") == 2


@pytest.mark.parametrize(
    ("pattern", "escape", "problem"),
    [
        ("a%_", "\\", ""),
        (r"a\%\_\\", "\\", ""),
        ("a!!", "!", ""),
        (r"a\b", "\\", "stands before"),
        ("a!", "!", "ends in its escape"),
        ("a", "", "one character"),
        ("a", "%", "cannot be"),
    ],
)
def test_like_patterns(pattern: str, escape: str, problem: str) -> None:
    found = like_problem(pattern, escape)
    assert problem in found
    assert bool(problem) == bool(found)
