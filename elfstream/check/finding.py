"""What a look at the world found about a key of the configuration."""

from __future__ import annotations

from typing import Literal, NamedTuple

from elfstream.config.toml_lines import KeyPath


class Finding(NamedTuple):
    severity: Literal["error", "warning"]
    key: KeyPath
    message: str
    advice: str = ""
    detail: str = ""


def error(key: KeyPath, message: str, advice: str = "", detail: str = "") -> Finding:
    return Finding("error", key, message, advice, detail)


def warning(key: KeyPath, message: str, advice: str = "", detail: str = "") -> Finding:
    return Finding("warning", key, message, advice, detail)
