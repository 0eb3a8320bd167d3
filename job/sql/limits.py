"""What a query may cost before it runs. All are far beyond what people write; they stop programs gone wrong.
"""

SQL_CHARACTERS_MAX = 65_536
TOKENS_MAX = 20_000
NESTING_MAX = 40
"""Parentheses inside each other. sqlglot needs about 15 Python frames for each, of a thousand."""
DEPTH_MAX = 100
"""Calls inside each other in a typed expression; chains of AND, OR and || count as one."""
KEYS_MAX = 64
AGGREGATES_MAX = 256
OUTPUTS_MAX = 320
ORDER_TERMS_MAX = 64
IN_CANDIDATES_MAX = 10_000
SUBQUERY_DEPTH_MAX = 4
LIMIT_MAX = 2**31 - 1
"""Spark's LIMIT is an INT."""
PANES_MAX = 10_000
"""Panes of one window: its size over gcd(size, slide)."""
PERCENTILES_MAX = 100
