"""Job: what a job is. Types, plans, SQL, formats, expressions, windows; no I/O."""
