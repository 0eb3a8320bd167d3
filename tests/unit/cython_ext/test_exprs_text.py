"""Text functions, URLs and regular expressions. The expectations are what Spark 4.3 answers, unless a test
says otherwise."""

from __future__ import annotations

import pytest

from cython_ext.column import Column
from cython_ext.exprs_like import LikePattern
from cython_ext.exprs_result import Failures
from cython_ext.exprs_text import STRING_RESULT_BYTES_MAX, change_case, concat, replace
from job.types import BIGINT, BOOLEAN, STRING, Kind
from tests.expression_cases import FAILS, number, result, text

REST = 2**31 - 1


@pytest.mark.parametrize(
    ("value", "position", "size", "expected"),
    [
        ("hello", -10, 7, "he"), ("hello", 0, 2, "he"), ("hello", 2, -1, ""), ("hello", -3, 2, "ll"), ("hello", 6, 1, ""),
        ("hello", -10, REST, "hello"), ("hello", REST, REST, ""), ("hello", -(2**31), REST, "hell"),
        ("hello", 2, REST, "ello"),
        ("hello", -(2**63), 2**63 - 1, "hell"), ("hello", 2**63 - 1, 2**63 - 1, ""), ("hello", 1, 0, ""),
        ("aé😀b", 2, 2, "é😀"), ("aé😀b", -2, 1, "😀"), ("", 1, 5, ""),
    ],
)  # fmt: skip
def test_substr(value: str, position: int, size: int, expected: str) -> None:
    assert result("substr", STRING, (value, STRING), number(position), number(size)) == expected


@pytest.mark.parametrize(
    ("value", "separator", "part", "expected"),
    [
        ("a,b,c", ",", -1, "c"), ("a,b,c", ",", 2, "b"), ("a,b,c", ",", -4, ""), ("a,b,c", ",", 4, ""),
        ("a,b,c", "", 1, "a,b,c"),
        ("a,b,c", "", -1, "a,b,c"), ("a,b,c", "", 2, ""), ("", ",", 1, ""), ("", "", 1, ""), ("aaa", "aa", 2, "a"),
        ("aaaa", "aa", -1, ""), ("a.b", ".", 1, "a"), ("a", "a", 2, ""), ("a,b", ",", 0, FAILS), ("aé:b", "é:", 2, "b"),
        ("a,b", ",", -(2**63), ""), ("a,b", ",", 2**63 - 1, ""),
    ],
)  # fmt: skip
def test_split_part(value: str, separator: str, part: int, expected: str) -> None:
    assert result("split_part", STRING, (value, STRING), text(separator), number(part)) == expected


@pytest.mark.parametrize(
    ("value", "search", "by", "expected"),
    [("abc", "", "x", "abc"), ("aaa", "aa", "b", "ba"), ("aaa", "a", "", ""), ("a.b", ".", "éé", "aééb"),
    ("", "a", "b", "")],
)
def test_replace(value: str, search: str, by: str, expected: str) -> None:
    assert result("replace", STRING, (value, STRING), (search, STRING), text(by)) == expected


@pytest.mark.parametrize(
    ("function", "value", "characters", "expected"),
    [
        ("trim", "  a b  ", None, "a b"), ("trim", "\t a \u00a0", None, "\t a \u00a0"), ("trim", "xyaxy", "xy", "a"),
        ("trim", " a ", "", " a "), ("ltrim", "xyz", "xy", "z"), ("ltrim", "ééa", "é", "a"), ("rtrim", "aéé", "é", "a"),
        ("rtrim", "xyx", "xy", ""), ("trim", "é", "\u0129", "é"), ("ltrim", "  ", None, ""),
    ],
)  # fmt: skip
def test_trim(function: str, value: str, characters: str | None, expected: str) -> None:
    more = () if characters is None else (text(characters),)
    assert result(function, STRING, (value, STRING), *more) == expected


@pytest.mark.parametrize(("value", "expected"), [("é", 1), ("😀a", 2), ("a ", 2), ("", 0)])
def test_length(value: str, expected: int) -> None:
    assert result("length", BIGINT, (value, STRING)) == expected


@pytest.mark.parametrize(
    ("function", "value", "expected"),
    [
        ("lower", "ABCxyz[]@`{", "abcxyz[]@`{"), ("upper", "abcXYZ[]@`{", "ABCXYZ[]@`{"), ("lower", "ΑΣ Σ", "ας σ"),
        ("lower", "İ", "i\u0307"), ("upper", "ß", "SS"), ("upper", "ŉ", "\u02bcN"), ("upper", "", ""),
        ("lower", "ÀÉ", "àé"),
    ],
)  # fmt: skip
def test_case(function: str, value: str, expected: str) -> None:
    assert result(function, STRING, (value, STRING)) == expected


def test_case_leaves_only_rows_beyond_ascii() -> None:
    done, left = change_case(Column.from_list(Kind.STRING, ["Ab", None, "Éa", ""]), False)
    assert left is not None
    assert left.to_list() == [False, False, True, False]
    assert [done.to_list()[i] for i in (0, 1, 3)] == ["ab", None, ""]
    assert change_case(Column.from_list(Kind.STRING, ["Ab", None]), True)[1] is None


@pytest.mark.parametrize(
    ("value", "pattern", "expected"),
    [
        ("abc", "a%", True), ("abc", "%c", True), ("abc", "%b%", True), ("abc", "abc", True), ("abc", "ab", False),
        ("abc", "", False),
        ("", "", True), ("", "%", True), ("", "_", False), ("a%c", "a\\%c", True), ("abc", "a\\%c", False),
        ("a\\c", "a\\\\c", True),
        ("a\nb", "a_b", True), ("😀", "_", True), ("é", "__", False), ("aé", "%_", True), ("ab", "a%b%b", False),
        ("aab", "%a_", True),
        ("xayb", "%a_b", True), ("xaéb", "%a_b%", True), ("aXbXc", "a%b%c", True), ("abab", "%ab", True),
        ("ab", "%ab%ab", False),
        ("é", "%\u00a9", False), ("a/api/x", "/api/%", False), ("/api/", "/api/%", True), ("/api", "/api/%", False),
        ("x" * 40 + "end", "%x%end", True), ("abcdefgh12345678z", "abcdefgh12345678_", True), ("aaab", "%%b", True),
    ],
)  # fmt: skip
def test_like(value: str, pattern: str, expected: bool) -> None:
    assert result("like", BOOLEAN, (value, STRING), text(pattern), text("\\")) is expected


def test_like_with_an_escape_of_ones_own() -> None:
    assert result("like", BOOLEAN, ("a_c", STRING), text("a/_c"), text("/")) is True
    assert result("like", BOOLEAN, ("abc", STRING), text("a/_c"), text("/")) is False
    assert result("like", BOOLEAN, ("a\\c", STRING), text("a\\_"), text("/")) is True


@pytest.mark.parametrize(("pattern", "escape"), [("a\\bc", "\\"), ("abc\\", "\\"), ("x", ""), ("x", "ab")])
def test_like_refuses_what_spark_refuses(pattern: str, escape: str) -> None:
    with pytest.raises(ValueError, match="escape"):
        LikePattern(pattern, escape)


@pytest.mark.parametrize(
    ("function", "value", "part", "expected"),
    [
        ("contains", "abc", "", True), ("starts_with", "", "", True), ("ends_with", "abc", "bc", True),
        ("ends_with", "c", "bc", False),
        ("contains", "a" * 30 + "bc", "bc", True), ("contains", "abc", "B", False), ("starts_with", "é", "\u00c3", False),
        ("contains", "abc", "c", True), ("starts_with", "0123456789abcdefghi", "0123456789abcdefgh", True),
        ("ends_with", "0123456789abcdefghi", "x23456789abcdefghi", False),
    ],
)  # fmt: skip
def test_parts(function: str, value: str, part: str, expected: bool) -> None:
    assert result(function, BOOLEAN, (value, STRING), (part, STRING)) is expected
    assert result(function, BOOLEAN, (value, STRING), text(part)) is expected


def test_concat() -> None:
    assert result("concat", STRING, ("a", STRING), text("é"), ("", STRING), ("b", STRING)) == "aéb"
    assert result("concat", STRING, ("a", STRING), (None, STRING)) is None


def test_no_text_grows_beyond_its_limit() -> None:
    half = Column.from_list(Kind.STRING, ["x" * (STRING_RESULT_BYTES_MAX // 2 + 1), "y"])
    failures = Failures()
    assert concat([half, half], failures).to_list() == [None, "yy"]
    x, xx = (Column.from_list(Kind.STRING, [t], constant=True, length=2) for t in ("x", "xx"))
    assert replace(half, x, xx, failures).to_list() == [None, "y"]
    assert failures.count == 2


URL = "http://user:pw@host.com:80/p/a?q=1&r=2#frag"


@pytest.mark.parametrize(
    ("url", "part", "expected"),
    [
        (URL, "HOST", "host.com"), (URL, "PATH", "/p/a"), (URL, "QUERY", "q=1&r=2"), (URL, "REF", "frag"),
        (URL, "PROTOCOL", "http"),
        (URL, "FILE", "/p/a?q=1&r=2"), (URL, "AUTHORITY", "user:pw@host.com:80"), (URL, "USERINFO", "user:pw"),
        (URL, "host", None),
        ("http://h", "PATH", ""), ("http://h?x", "FILE", "?x"), ("http://h", "QUERY", None), ("/a/b?c=d", "PATH", "/a/b"),
        ("/a/b?c=d", "HOST", None), ("", "PATH", ""), ("mailto:a@b", "PATH", None), ("mailto:a@b?x=y", "QUERY", None),
        ("mailto:", "PATH", FAILS), ("http:", "PATH", FAILS), ("http://", "HOST", FAILS), ("http:///p", "HOST", None),
        ("//h/p", "HOST", "h"), ("http://h/a b", "PATH", FAILS), ("http://h/a|b", "PATH", FAILS),
        ("http://h/a%20b", "PATH", "/a%20b"),
        ("http://h/a%zzb", "PATH", FAILS), ("http://h/é", "PATH", "/é"), ("http://h/\u00a0", "PATH", FAILS),
        ("http://h/\u2028", "PATH", FAILS), ("http://h/😀", "PATH", "/😀"), ("http://é/p", "HOST", None),
        ("http://h_x/p", "HOST", None),
        ("http://h_x/p", "AUTHORITY", "h_x"), ("http://h:abc/p", "HOST", None), ("http://h:/p", "HOST", "h"),
        ("http://h:99999999999/p", "HOST", None), ("http://1.2.3.4/p", "HOST", "1.2.3.4"),
        ("http://1.2.3.400/p", "HOST", None),
        ("http://a.1/p", "HOST", None), ("http://a.b1/p", "HOST", "a.b1"), ("http://1a/p", "HOST", "1a"),
        ("http://a-/p", "HOST", None),
        ("http://a./p", "HOST", "a."), ("http://a..b/p", "HOST", None), ("http://[::1]:80/p", "HOST", "[::1]"),
        ("http://[::1%eth0]/p", "HOST", "[::1%eth0]"), ("http://[1::2::3]/p", "HOST", FAILS),
        ("http://[::1/p", "HOST", FAILS),
        ("http://[::ffff:1.2.3.4]/p", "HOST", "[::ffff:1.2.3.4]"), ("http://[::1]x/p", "HOST", FAILS),
        ("http://h/[x]", "PATH", FAILS),
        ("http://h/p?[x]", "QUERY", "[x]"), ("http://h/p#a#b", "REF", FAILS), ("http://h/p?a?b", "QUERY", "a?b"),
        ("http://h/p?a^b", "QUERY", FAILS), ("http://h/p?a\\b", "QUERY", FAILS), ("http://u@v@h/p", "HOST", None),
        ("http://u@v@h/p", "AUTHORITY", "u@v@h"), ("http://@h/p", "USERINFO", ""), ("1http://h/p", "HOST", FAILS),
        ("a:b:c", "PATH", None), ("a/b:c", "PATH", "a/b:c"), ("http://h/p?", "QUERY", ""), ("http://h/p#", "REF", ""),
        ("#f", "PATH", ""), ("*", "PATH", "*"), ("example.com:443", "PROTOCOL", "example.com"), ("//", "PATH", FAILS),
        ("///", "PATH", "/"), ("////a", "PATH", "//a"), ("http://h%41/p", "AUTHORITY", "h%41"),
        ("http://h;x/p", "AUTHORITY", "h;x"),
    ],
)  # fmt: skip
def test_parse_url(url: str, part: str, expected: str | None) -> None:
    assert result("parse_url", STRING, (url, STRING), text(part)) == expected


@pytest.mark.parametrize(
    ("url", "key", "expected"),
    [
        ("http://h/p?q=1&r=2", "r", "2"), ("http://h/p?q=1&r=2", "x", None), ("http://h/p?q=1&r=2", "", None),
        ("http://h/p?aq=1&q=2", "q", "2"), ("http://h/p?q=", "q", ""), ("http://h/p?q", "q", None),
        ("http://h/p?a.b=5", "a.b", "5"),
        ("http://h/p", "q", None), ("http://h/a b?q=1", "q", FAILS),
    ],
)  # fmt: skip
def test_parse_url_key(url: str, key: str, expected: str | None) -> None:
    assert result("parse_url", STRING, (url, STRING), text("QUERY"), text(key)) == expected
    assert result("parse_url", STRING, (url, STRING), text("PATH"), (key, STRING)) is None


def test_a_key_is_a_text_and_no_pattern() -> None:
    """Spark puts the key into a regular expression unquoted, so there it would find axb."""
    assert result("parse_url", STRING, ("http://h/p?axb=5", STRING), text("QUERY"), text("a.b")) is None


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("a%20b+c", "a b c"), ("%zz", FAILS), ("%", FAILS), ("%4", FAILS), ("%ff", "\ufffd"), ("%e9x", "\ufffdx"),
        ("%C3%A9", "é"),
        ("%-1", FAILS), ("%+1", "\x01"), ("é%41", "éA"), ("%C3x%A9", "\ufffdx\ufffd"), ("%ed%a0%80", "\ufffd"),
        ("%f0%9f%98", "\ufffd"), ("%f0%9f%98%80", "😀"), ("% 1", FAILS), ("%\u06631", "1"), ("", ""),
    ],
)  # fmt: skip
def test_url_decode(written: str, expected: str) -> None:
    assert result("url_decode", STRING, (written, STRING)) == expected


@pytest.mark.parametrize(
    ("value", "pattern", "group", "expected"),
    [("abc", "(b)(x)?", 2, ""), ("abc", "z", 0, ""), ("abc", "", 0, ""), ("id=42;", "id=([0-9]+)", 1, "42"),
    ("aéb", "a(.)b", 1, "é")],
)
def test_regexp_extract(value: str, pattern: str, group: int, expected: str) -> None:
    pytest.importorskip("re2", reason="google-re2 is not installed")
    assert result("regexp_extract", STRING, (value, STRING), text(pattern), number(group)) == expected


def test_rlike_finds_anywhere() -> None:
    pytest.importorskip("re2", reason="google-re2 is not installed")
    assert result("rlike", BOOLEAN, ("abc", STRING), text("B")) is False
    assert result("rlike", BOOLEAN, ("abc", STRING), text("")) is True
    assert result("rlike", BOOLEAN, ("xaéb", STRING), text("a.b$")) is True


def test_results_keep_the_bytes_they_point_into() -> None:
    from cython_ext.exprs_text import substr

    source = Column.from_list(Kind.STRING, ["abcdef" * 5])
    one, three = (Column.from_list(Kind.BIGINT, [n], constant=True, length=1) for n in (2, 3))
    part = substr(source, one, three)
    del source
    assert part.to_list() == ["bcd"]
