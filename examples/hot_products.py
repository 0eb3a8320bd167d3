"""The most viewed products of each quarter of an hour, through the Python API.

    python examples/hot_products.py [LOG...]
"""

from __future__ import annotations

import sys
from pathlib import Path

import elfstream as elf

SQL = """
SELECT window(time, '15 minutes') AS w, split_part(path, '/', 3) AS product,
       count(*) AS views, count(DISTINCT remote_addr) AS visitors
FROM access
WHERE path LIKE '/product/%' AND status = :status
GROUP BY window(time, '15 minutes'), split_part(path, '/', 3)
ORDER BY views DESC
LIMIT 2
"""


def main(logs: list[str]) -> None:
    result = elf.query(SQL, logs or [str(Path(__file__).with_name("access.log"))], params={"status": 200})
    for row in result:
        print(f"{row.w.start:%H:%M}  {row.product:<14} {row.views:>4} views by {row.visitors} visitors")
    print(f"{result.stats.lines} lines, {result.stats.rejected} rejected, format {result.format}")


main(sys.argv[1:])
