"""What a user says of a job beside its SQL: names, durations and limits, as JSON and on the command line have them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from job.derived import Derived
from job.durations import SECOND_US, UNITS_US, duration_text, duration_us
from job.errors import JobError
from job.watermark import Timing

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
SQL_CHARS_MAX = 64 * 1024
PARTITIONS_MAX = 64
WEBHOOK_CHARS_MAX = 2048
EMIT_MIN_US, EMIT_MAX_US = 10_000, 3600 * SECOND_US
_YEAR_US = 366 * UNITS_US["d"]


class SettingsError(JobError):
    """A setting that does not exist, or has no sound value. `field` names it."""

    def __init__(self, field: str, message: str) -> None:
        self.field = field
        super().__init__(f"{field}: {message}")


class Settings(msgspec.Struct, frozen=True, array_like=True):
    """How a job runs. Durations in microseconds. A change of one is a revision like a change of the SQL."""

    emit_us: int = SECOND_US // 2
    """Agents send what they have so often; a window that changed is shown again no sooner."""
    deadline_us: int = 10 * SECOND_US
    """So long after the first agent passed the end of a window it is shown, final or not."""
    delay_us: int = 2 * SECOND_US
    """How much lines of a file may be out of order without being late."""
    idle_us: int = 5 * SECOND_US
    """A file without lines for so long holds nobody back."""
    lateness_us: int = 60 * SECOND_US
    """So long after a window closed late lines make a further edition of it."""
    retain_us: int = 24 * 3600 * SECOND_US
    """Results are kept for so long after the end of their window."""
    since_us: int = 0
    """So much of the logs before the submission is read, too."""
    expect: int = 0
    """Agents that the first final result waits for."""
    partitions: int = 1
    empty: bool = False
    """Windows without rows are shown."""
    webhook: str = ""
    """Address that is sent final windows with rows; empty: nobody is."""

    @property
    def timing(self) -> Timing:
        return Timing(self.delay_us, self.idle_us, self.lateness_us)

    def shown(self) -> dict[str, Any]:
        """As people write them; `settings_of` reads it back."""
        return {
            name.removesuffix("_us"): duration_text(value) if name.endswith("_us") else value
            for name, value in msgspec.structs.asdict(self).items()
        }


_FIELDS = {name.removesuffix("_us"): name for name in Settings.__struct_fields__}
_BOUNDS: dict[str, tuple[int, int]] = {
    "emit": (EMIT_MIN_US, EMIT_MAX_US),
    "deadline": (0, 86400 * SECOND_US),
    "expect": (0, 1_000_000),
    "partitions": (1, PARTITIONS_MAX),
}


def settings_of(given: Mapping[str, object], base: Settings = Settings()) -> Settings:  # noqa: B008 - frozen
    """`base` with what is given; null takes the default of a setting. Raises SettingsError."""
    values: dict[str, Any] = {}
    for name, value in given.items():
        field = _FIELDS.get(name)
        if field is None:
            near = difflib.get_close_matches(str(name), _FIELDS, n=1)
            advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(_FIELDS)}"
            raise SettingsError(str(name)[:64], f"no such setting; {advice}")
        values[field] = getattr(Settings(), field) if value is None else _value(name, field, value)
    return msgspec.structs.replace(base, **values)


def _value(name: str, field: str, value: object) -> object:
    default = getattr(Settings(), field)
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise SettingsError(name, f"{value!r} is neither true nor false")
        return value
    if field.endswith("_us"):
        try:
            number = duration_us(value)
        except ValueError as problem:
            raise SettingsError(name, str(problem)) from None
    elif isinstance(default, str):
        return _webhook(name, value)
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    else:
        raise SettingsError(name, f"{value!r} is no whole number")
    least, most = _BOUNDS.get(name, (0, _YEAR_US))
    if not least <= number <= most:
        shown = duration_text if field.endswith("_us") else str
        raise SettingsError(name, f"{shown(number)} is not between {shown(least)} and {shown(most)}")
    return number


def _webhook(name: str, value: object) -> str:
    if value == "":
        return ""
    if not isinstance(value, str) or len(value) > WEBHOOK_CHARS_MAX:
        raise SettingsError(name, f"no address of at most {WEBHOOK_CHARS_MAX} characters")
    try:
        parts = urlsplit(value)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound or not value.isascii() or not value.isprintable() or " " in value:
        raise SettingsError(name, f"{value[:80]!r} is no address; write http://host:port/path or https://...")
    if parts.username is not None:
        raise SettingsError(
            name, "an address here has no user or password: everybody who sees the job would see them"
        )
    return value


class JobSpec(msgspec.Struct, frozen=True, array_like=True):
    """A job as its user wrote it."""

    name: str
    sql: str
    settings: Settings = Settings()
    parameters: dict[str, bool | int | float | str | None] = {}
    """Values of the `:name`s in the SQL."""
    derived: Derived | None = None
    """It has no SQL then."""


def check_name(name: str) -> str:
    """Raises SettingsError."""
    if not NAME.fullmatch(name):
        raise SettingsError(
            "name",
            f"{name[:80]!r} is no name of a job: 1 to 64 letters, digits, _ . -, a letter or digit first",
        )
    return name
