"""Text functions on plain Python strings, with Spark's rules. Positions and lengths count code points."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from cython_ext.failure import Failure

STRING_RESULT_BYTES_MAX = 16 * 1024 * 1024


def bounded(text: str) -> str:
    """`text`, which must not be longer than a result may be."""
    if len(text) * 4 > STRING_RESULT_BYTES_MAX and len(text.encode()) > STRING_RESULT_BYTES_MAX:
        raise Failure("a result above 16 MiB")
    return text


@lru_cache(maxsize=256)
def _like_pattern(pattern: str, escape: str) -> re.Pattern[str]:
    out = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == escape:
            at += 1
            if at == len(pattern) or pattern[at] not in ("%", "_", escape):
                raise ValueError(
                    f"in the LIKE pattern {pattern!r} the escape {escape!r} must stand before %, _ or itself"
                )
            out.append(re.escape(pattern[at]))
        else:
            out.append({"%": ".*?", "_": "."}.get(character) or re.escape(character))
        at += 1
    return re.compile("".join(out), re.DOTALL)


def like(text: str, pattern: str, escape: str = "\\") -> bool:
    """Raises ValueError for a pattern that Spark refuses."""
    return _like_pattern(pattern, escape).fullmatch(text) is not None


@lru_cache(maxsize=256)
def regular_expression(pattern: str, captures: bool = True) -> Any:
    """`pattern`, compiled by RE2; without `captures` its groups only group, which is faster. Raises ImportError with
    advice where google-re2 is missing, ValueError for a pattern that RE2 refuses."""
    try:
        import re2
    except ImportError as error:
        raise ImportError("regular expressions need google-re2: pip install elfstream[regex]") from error
    options = re2.Options()
    options.log_errors = False
    options.never_capture = not captures
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(f"the regular expression {pattern!r}: {error}") from error


def span_finder(pattern: str, captures: bool) -> tuple[Callable[[Any, bytes, int, int], Any], Any] | None:
    """(match, anchor): what google-re2 itself calls for bytes, as `cython_ext.exprs_regex` takes it. None where this
    google-re2 is built in another way. Raises as `regular_expression`."""
    compiled = regular_expression(pattern, captures)
    import re2

    match = getattr(getattr(compiled, "_regexp", None), "Match", None)
    anchor = getattr(getattr(getattr(re2, "_re2", None), "RE2", None), "Anchor", None)
    if match is None or anchor is None:
        return None
    return match, anchor.UNANCHORED


def rlike(text: str, pattern: str) -> bool:
    return regular_expression(pattern).search(text) is not None


def regexp_extract(text: str, pattern: str, group: int) -> str:
    found = regular_expression(pattern).search(text)
    return (found.group(group) or "") if found else ""


def substr(text: str, position: int, size: int) -> str:
    start = position - 1 if position > 0 else position + len(text) if position < 0 else 0
    return text[max(start, 0) : max(start + size, 0)] if size > 0 else ""


def split_part(text: str, separator: str, number: int) -> str:
    if number == 0:
        raise Failure("parts count from 1")
    parts = text.split(separator) if separator else [text]
    index = number - 1 if number > 0 else len(parts) + number
    return parts[index] if 0 <= index < len(parts) else ""


def replace(text: str, search: str, by: str) -> str:
    return bounded(text.replace(search, by)) if search else text


def concat(*parts: str) -> str:
    return bounded("".join(parts))


def trim(text: str, characters: str = " ") -> str:
    return text.strip(characters) if characters else text


def ltrim(text: str, characters: str = " ") -> str:
    return text.lstrip(characters) if characters else text


def rtrim(text: str, characters: str = " ") -> str:
    return text.rstrip(characters) if characters else text
