"""A group of commands that are imported when they are named, so that `--help` answers fast."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """`commands_at`: modules by the names of their commands; each has a `command`."""

    def __init__(self, *arguments: Any, commands_at: Mapping[str, str], **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.commands_at = commands_at

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands_at)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = self.commands_at.get(cmd_name)
        if module is None:
            return None
        command = importlib.import_module(module).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands_at and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], self.commands_at, n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"there is no command {args[0]}{meant}", ctx)
        return super().resolve_command(ctx, args)
