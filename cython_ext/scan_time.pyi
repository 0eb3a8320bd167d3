DIRECTIVES: frozenset[int]
CLF: bytes

def parse_time(layout: bytes, text: bytes) -> int | None: ...
