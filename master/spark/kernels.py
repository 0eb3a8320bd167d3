"""Whether the compiled kernels are here. In an executor of another Python or processor they may not be; then the scan in
plain Python stands in for them, with the same rows, so that a job goes on slowly instead of not at all.

Imported before all else of this package, since it decides what `cython_ext.scan` is. Nodes and the command line never do
so: there a missing kernel is an error.
"""

from __future__ import annotations

import sys
from importlib import import_module


def _compiled() -> bool:
    try:
        import_module("cython_ext.scan")
    except ImportError:  # not there, or of another system
        sys.modules["cython_ext.scan"] = import_module("cython_ext.reference_scanner")
        return False
    return "reference" not in sys.modules["cython_ext.scan"].__name__


COMPILED = _compiled()
