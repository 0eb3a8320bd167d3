"""Stores of keys and values in one SQLite database: a table per store. Used by the disk thread (`srt/stores.py`)."""

from __future__ import annotations

import re
import sqlite3
import threading
from pathlib import Path

from srt.automaton import Delete, Put, Write
from srt.errors import StoreError

STORE_NAME = re.compile(r"[a-z][a-z_]{0,31}")
LOG_BYTES_MAX = 64 << 20
"""The write-ahead log is cut back to this after a checkpoint."""
_TABLES = "SELECT substr(name, 4) FROM sqlite_schema WHERE type = 'table' AND name LIKE 'kv\\_%' ESCAPE '\\'"


class KeyValueStore:
    """The writing side: for one thread, after the one that made it is done with it."""

    def __init__(self, path: Path) -> None:
        """Opens the database, or makes it. StoreError: it cannot be opened, or is none."""
        self.path = path
        self._lazy = False
        """As the database is set now."""
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise database_error(path, error) from error
        try:
            path.chmod(0o600)
            # FULL: a commit is durable when it returns, also after a power cut.
            for pragma in (
                "journal_mode = WAL",
                "synchronous = FULL",
                "trusted_schema = OFF",
                "cell_size_check = ON",
                f"journal_size_limit = {LOG_BYTES_MAX}",
            ):
                self._connection.execute(f"PRAGMA {pragma}")
            self._tables = {name for (name,) in self._connection.execute(_TABLES)}
        except (sqlite3.Error, OSError) as error:
            self._connection.close()
            raise database_error(path, error) from error

    def read(self, store: str) -> dict[bytes, bytes]:
        """All that is in a store. StoreError when the database is rotten."""
        check_name(store)
        if store not in self._tables:
            return {}
        try:
            return dict(self._connection.execute(f"SELECT key, value FROM kv_{store}"))
        except sqlite3.Error as error:
            raise database_error(self.path, error) from error

    def commit(self, writes: list[Write]) -> None:
        """Makes all of these writes, or none; durably, unless they are all lazy. StoreError: none was made."""
        made: set[str] = set()
        lazy = all(write.lazy for write in writes)
        try:
            if lazy != self._lazy:
                # Without a sync it is in the log before everything that is synced later, which syncs it, too.
                self._connection.execute(f"PRAGMA synchronous = {'NORMAL' if lazy else 'FULL'}")
                self._lazy = lazy
            self._connection.execute("BEGIN IMMEDIATE")
            for write in writes:
                self._apply(write, made)
            self._connection.execute("COMMIT")
        except (sqlite3.Error, OverflowError) as error:
            self._roll_back()
            raise database_error(self.path, error) from error
        except StoreError:
            self._roll_back()
            raise
        self._tables |= made

    def _apply(self, write: Write, made: set[str]) -> None:
        table = f"kv_{check_name(write.store)}"
        if write.store not in self._tables and write.store not in made:
            self._connection.execute(
                f"CREATE TABLE {table} (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
            )
            made.add(write.store)
        for change in write.changes:
            if isinstance(change, Put):
                self._connection.execute(
                    f"INSERT OR REPLACE INTO {table} VALUES (?, ?)", (bytes(change.key), bytes(change.value))
                )
            elif isinstance(change, Delete):
                self._connection.execute(
                    f"DELETE FROM {table} WHERE key >= ? AND key < ?",
                    (bytes(change.first), bytes(change.last)),
                )
            else:
                raise StoreError(
                    f"{type(change).__name__} is no change of the store {write.store}, which has keys"
                )

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()


class Readers:
    """The reading side, beside the one that writes: for any threads, each with a connection of its own at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()

    def scan(
        self, store: str, first: bytes, last: bytes, limit: int, reverse: bool = False
    ) -> list[tuple[bytes, bytes]]:
        """At most `limit` of the keys in [first, last) and their values, ascending or descending; all as of one moment.
        StoreError when the database is rotten."""
        order = "DESC" if reverse else "ASC"
        query = f"SELECT key, value FROM kv_{check_name(store)} WHERE key >= ? AND key < ? ORDER BY key {order} LIMIT ?"
        try:
            connection = self._borrow()
            try:
                return connection.execute(query, (first, last, limit)).fetchall()
            except sqlite3.OperationalError:
                if (store,) in connection.execute(_TABLES).fetchall():
                    raise
                return []  # nothing was ever written to it
            finally:
                with self._lock:
                    self._idle.append(connection)
        except sqlite3.Error as error:
            raise database_error(self.path, error) from error

    def _borrow(self) -> sqlite3.Connection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        uri = f"{self.path.absolute().as_uri()}?mode=ro"
        return sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None)

    def close(self) -> None:
        """Once nobody reads any more."""
        with self._lock:
            for connection in self._idle:
                connection.close()
            self._idle.clear()


def check_name(store: str) -> str:
    """The name, fit to be part of a statement. StoreError when it is not."""
    if not STORE_NAME.fullmatch(store):
        raise StoreError(f"{store!r} is no name of a store: small letters and _, at most 32")
    return store


_ADVICE = {
    "SQLITE_FULL": "the disk is full: free some space",
    "SQLITE_READONLY": "give the user of this process the right to write there (chown)",
    "SQLITE_CANTOPEN": "give the user of this process the right to read and write there (chown)",
    "SQLITE_PERM": "give the user of this process the right to read and write there (chown)",
    "SQLITE_BUSY": "another program has it open: close that",
    "SQLITE_IOERR": "the disk refuses: it is full, has a limit (quota, ulimit -f), or is broken (see the kernel's log)",
    "SQLITE_CORRUPT": "it has rotted",
    "SQLITE_NOTADB": "it has rotted, or is something else",
    "SQLITE_TOOBIG": "the value is larger than a database takes",
}
_ROTTEN = "; move the whole data directory away: the node comes back as another one and gets from the others what it needs"


def database_error(path: Path, error: Exception) -> StoreError:
    """What SQLite said about a database, and what to do about it."""
    name = getattr(error, "sqlite_errorname", "") or ""
    kind = "_".join(name.split("_")[:2])
    advice = _ADVICE.get(kind, "")
    if kind in ("SQLITE_CORRUPT", "SQLITE_NOTADB"):
        advice += _ROTTEN
    return StoreError(f"{path}: {error}" + (f"; {advice}" if advice else ""))
