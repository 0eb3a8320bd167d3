"""The sources of an agent: named log streams, and whether a plan can be run over them here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agent.errors import OptionsError
from agent.log_id import source_tag
from agent.pipeline import TIME
from agent.tail_options import TailOptions
from cbt.errors import CbtError
from job.errors import JobError
from job.formats import Format
from job.plan import Plan, columns_of
from job.row_phase import RowPhase
from job.types import Kind

SOURCES_MAX = 256


@dataclass(frozen=True)
class Source:
    """Log files under a name that plans call. Raises OptionsError."""

    name: str
    patterns: tuple[str, ...]
    """Paths and globs."""
    format: Format
    """In the time zone of the source (job.formats.in_zone)."""
    tail: TailOptions = field(default_factory=TailOptions)
    """`read_from` and the limits."""

    def __post_init__(self) -> None:
        if not self.name or not self.patterns:
            raise OptionsError(f"source {self.name!r} needs a name and at least one path")

    @property
    def tag(self) -> bytes:
        return source_tag(self.name)

    @property
    def timed(self) -> bool:
        """Whether its lines bear the time that jobs go by."""
        known = self.format.program.fields.get(TIME)
        return known is not None and known.kind is Kind.TIMESTAMP


class Sources:
    """All sources of an agent; immutable, for any thread."""

    def __init__(self, sources: Iterable[Source]) -> None:
        """Raises OptionsError when two have one name, or there are too many."""
        self.by_name: Mapping[str, Source] = {}
        named: dict[str, Source] = {}
        for source in sources:
            if source.name in named:
                raise OptionsError(f"there are two sources {source.name!r}; give each a name of its own")
            named[source.name] = source
        if len(named) > SOURCES_MAX:
            raise OptionsError(f"{len(named)} sources, at most {SOURCES_MAX}")
        self.by_name = named

    def can_run(self, plan: Plan) -> str | None:
        """Why the row phase `plan` cannot be run here; None: it can. O(plan)."""
        source = self.by_name.get(plan.source)
        if source is None:
            here = ", ".join(self.by_name) or "none"
            return f"there is no source {plan.source!r} on this agent; it has {here}"
        fields, where = source.format.fields, f"source {source.name!r} (format {source.format.name})"
        for wanted in plan.fields:
            known = fields.get(wanted.name)
            if known is None and not source.format.open_fields:
                return f"{where} has no field {wanted.name!r}; it has {', '.join(fields)}"
            if known is not None and known != wanted.type:
                return f"field {wanted.name!r} of {where} is {known}, and the plan wants {wanted.type}"
        if plan.window is not None and not source.timed:
            return f"{where} has no field {TIME!r} by which windows could be closed"
        if plan.inner is not None:
            return f"the plan over {where} reads another plan and no log"
        try:
            phase = RowPhase(plan)
        except (JobError, CbtError) as problem:
            return f"{where}: {problem}"
        except (LookupError, TypeError, ValueError) as problem:  # it came from a peer and is no sound plan
            return f"the plan over {where} is not sound: {problem!r}"
        expressions = [*phase.shape.expressions, *([] if plan.where is None else [plan.where])]
        unlisted = {ref.name for one in expressions for ref in columns_of(one)} - {
            one.name for one in plan.fields
        }
        if unlisted:
            return f"the plan over {where} is not sound: it reads {', '.join(sorted(unlisted))} without asking for it"
        return None
