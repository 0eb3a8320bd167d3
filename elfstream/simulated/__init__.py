"""A fleet in virtual time: the real cores over a network and disks in memory (docs/FAULTS.md; for users docs/API.md)."""
