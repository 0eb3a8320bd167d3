"""Errors of masters and their commit groups."""

from __future__ import annotations


class MasterError(Exception):
    """Something a master cannot do. `str(error)` is fit to be shown."""


class OptionsError(MasterError):
    """Options that contradict each other or make no sense; all problems in one message."""


class GroupStoreError(MasterError):
    """What a member of a commit group had promised cannot be read any more."""


class EntryError(MasterError):
    """An entry of the log, or a part of a snapshot, that is none: the log is corrupt or of a later version."""
