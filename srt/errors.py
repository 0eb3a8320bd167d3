"""Errors of the overlay: whose fault it is decides the class."""

from __future__ import annotations


class SrtError(Exception):
    """Something asked of the overlay cannot be done. `str(error)` is fit to be shown."""


class OptionsError(SrtError):
    """Options that contradict each other or make no sense; all problems in one message."""


class WireError(SrtError):
    """Bytes from a peer that are no message of this version, or one beyond the limits."""


class VersionError(WireError):
    """Two peers have no version of the wire format in common."""


class InvariantError(SrtError):
    """Our own bug: a state that the rules exclude."""


class ContentError(SrtError):
    """A peer sent runs that are not sound, or of other kinds than the pane has. Nothing of them was taken."""


class StoreError(SrtError):
    """The disk does not give or take what the node needs: which path, why, and what to do."""
