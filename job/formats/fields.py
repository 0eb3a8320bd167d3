"""The fields of web logs: what a variable of any format stands for, and under which name a query finds it.

Every format describes its variables as `Meaning`s; `FieldNames` hands out the names. The first variable that means a
thing gets the canonical name (`uri`, `bytes`, ...), later ones keep the name they have in the format. docs/FORMATS.md
has the tables for people.
"""

from __future__ import annotations

import msgspec

from job.formats.program import Content
from job.types import BIGINT, BOOLEAN, DOUBLE, SECONDS, STRING, TIMESTAMP, Type

CLF_TIME = b"%d/%b/%Y:%H:%M:%S %z"
ISO_TIME = b"%Y-%m-%dT%H:%M:%S%z"
REQUEST_ROLES = ("request", "method", "uri", "path", "query", "protocol")
URI_ROLES = ("uri", "path", "query")

_TYPES = {
    Content.INTEGER: BIGINT,
    Content.TIMER: BIGINT,
    Content.STATUS: BIGINT,
    Content.DECIMAL: SECONDS,
    Content.TIME: TIMESTAMP,
    Content.DATE: TIMESTAMP,
    Content.CLOCK: TIMESTAMP,
    Content.FLAG: BOOLEAN,
    Content.FLOAT: DOUBLE,
}
SIZED = frozenset(_TYPES) - {Content.FLAG, Content.FLOAT}
"""Contents that know where they end."""


def type_of(content: Content, role: int = 0) -> Type:
    """The type of output `role` of a content."""
    if content in (Content.ADDRESS_PORT, Content.LOCATION) and role == 1:
        return BIGINT
    return _TYPES.get(content, STRING)


def identifier(text: str) -> str:
    """`text` as a field name: lower case, every run of other characters than letters and digits an underscore."""
    spread = "".join(letter if letter.isalnum() else " " for letter in text.lower())
    return "_".join(spread.split()) or "field"


class Meaning(msgspec.Struct, frozen=True):
    """What a variable of a format stands for. `name` is its own name, `roles` are the canonical ones of its outputs."""

    name: str
    content: Content = Content.TEXT
    roles: tuple[str | None, ...] = ()
    word: bool = False
    """The value is never empty and never has a blank."""
    loose: bool = False
    """In quotes or a word: services that quote a column only where it has a value, or only where it has blanks."""
    elements: bool = False
    """May be a list with blanks at its joints: `a, b : c`."""
    person: bool = False
    """A user's name: it may have blanks."""
    required: bool = False
    """JSON: a document without it is of another kind."""
    lenient: bool = False
    """JSON: what cannot be read is NULL."""
    layout: bytes = b""
    argument: int = 0
    nulls: tuple[bytes, ...] = ()
    joined: bool = False
    """ADDRESS_PORT: put together from a variable for the host and one for the port."""
    target: str = ""
    """LOCATION: the own name of the target."""
    label: str = ""
    """The variable as the format writes it, for messages."""
    column: int = 0
    """Where it stands in the format string, from 1; 0: in none."""

    @property
    def outputs(self) -> tuple[str | None, ...]:
        return self.roles or (self.name,)

    def labelled(self, label: str, column: int = 0) -> Meaning:
        return msgspec.structs.replace(self, label=label, column=column)


def text(name: str, canonical: str | None = None) -> Meaning:
    """Any text."""
    return Meaning(name, roles=(canonical or name,))


def word(name: str, canonical: str | None = None) -> Meaning:
    """A text that is never empty and never has a blank: addresses, methods, protocols."""
    return Meaning(name, roles=(canonical or name,), word=True)


def person(name: str, canonical: str | None = None) -> Meaning:
    """The name of a user."""
    return Meaning(name, roles=(canonical or name,), person=True)


def elements(name: str, canonical: str | None = None) -> Meaning:
    """A list of words, each behind a comma and a blank, or ` : ` between those of two servers."""
    return Meaning(name, roles=(canonical or name,), elements=True)


def integer(name: str, canonical: str | None = None) -> Meaning:
    return Meaning(name, Content.INTEGER, (canonical or name,))


def timer(name: str, canonical: str | None = None) -> Meaning:
    """A whole number that is NULL when negative."""
    return Meaning(name, Content.TIMER, (canonical or name,))


def seconds(name: str, canonical: str | None = None) -> Meaning:
    """Seconds with a fraction, as DECIMAL(18,6)."""
    return Meaning(name, Content.DECIMAL, (canonical or name,), argument=6)


def status(name: str = "status", canonical: str | None = None) -> Meaning:
    return Meaning(name, Content.STATUS, (canonical or name,))


def moment(name: str, layout: bytes, canonical: str = "time") -> Meaning:
    return Meaning(name, Content.TIME, (canonical,), layout=layout)


def request(name: str = "request") -> Meaning:
    return Meaning(name, Content.REQUEST, REQUEST_ROLES)


def uri(name: str) -> Meaning:
    """A request target."""
    return Meaning(name, Content.URI, URI_ROLES)


def address_port(address: str, port: str) -> Meaning:
    """An address and a port with a colon between them."""
    return Meaning(address, Content.ADDRESS_PORT, (address, port), word=True)


class FieldNames:
    """The schema of a format in the making: hands out field names, each once."""

    def __init__(self) -> None:
        self.fields: dict[str, Type] = {}

    def claim(self, meaning: Meaning) -> tuple[str | None, ...]:
        """The names for the outputs of `meaning`, by role; None for a side role whose name is taken."""
        names: list[str | None] = []
        for role, canonical in enumerate(meaning.outputs):
            name = canonical
            if name in self.fields:
                own = meaning.name if role == 0 else meaning.target if role == 2 else ""
                name = self._free(own) if own else None
            if name is not None:
                self.fields[name] = type_of(meaning.content, role)
            names.append(name)
        while len(names) > 1 and names[-1] is None:
            names.pop()
        return tuple(names)

    def join(self, name: str, content: Content) -> None:
        """Makes `name` a field that several columns write together (the date and the time of day)."""
        self.fields.setdefault(name, type_of(content))

    def _free(self, name: str) -> str:
        if name not in self.fields:
            return name
        number = 2
        while f"{name}_{number}" in self.fields:
            number += 1
        return f"{name}_{number}"


REQUEST_HEADERS = {
    "referer": "referer",
    "referrer": "referer",
    "user_agent": "user_agent",
    "x_forwarded_for": "xff",
    "cookie": "cookie",
    "host": "vhost",
    "x_request_id": "request_id",
}
"""Request headers with a canonical name; any other one is `http_` and its name."""


def request_header(header: str) -> Meaning:
    """A header of the request, whatever way its name is written."""
    name = identifier(header)
    meaning = elements if name == "x_forwarded_for" else text
    return meaning(f"http_{name}", REQUEST_HEADERS.get(name))


def response_header(header: str) -> Meaning:
    return text(f"sent_http_{identifier(header)}")
