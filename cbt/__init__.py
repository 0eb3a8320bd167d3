"""Cbt: live group-by state. The aggregate contract; the compressed buffer tree grows here."""
