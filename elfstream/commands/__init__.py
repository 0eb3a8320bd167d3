"""The commands, one module each with a `command`; docs/CLI.md describes them."""
