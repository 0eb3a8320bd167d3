from collections.abc import Sequence
from typing import Any

STEPS_MAX: int

class LineCode:
    def __init__(self, program: Any, wanted: Sequence[str]) -> None: ...
