from cython_ext.column import Column

EQ: int
NE: int
LT: int
LE: int
GT: int
GE: int
SMALL_LIST_MAX: int

def compare(operator: int, a: Column, b: Column) -> Column: ...
def equal_null_safe(a: Column, b: Column) -> Column: ...
def extreme(a: Column, b: Column, greatest: bool) -> Column: ...

class Membership:
    def __init__(self, candidates: Column) -> None: ...
    def test(self, column: Column) -> Column: ...
