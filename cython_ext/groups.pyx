"""The group table: rows in, one entry of aggregate states per distinct key.

Rows are taken in batches: encode and hash all keys, then touch all slots, then all entries, then run one loop per
state, so that the cache misses of a batch overlap. docs/AGGREGATES.md defines keys, hash and states.
"""

from base64 import b64encode

cimport cython
from libc.stdint cimport SIZE_MAX, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from cython_ext.column cimport Column, K_BIGINT, K_NULL, K_STRING, K_TIMESTAMP, Selection, new_column, value_size
from cython_ext.finishes cimport finish_state, serialize_state
from cython_ext.group_index cimport GroupIndex, raise_failure
from cython_ext.group_keys cimport (NO_MEMORY, KeyColumn, Keys, Scratch, encode_keys, read_value, refer_key, refer_texts,
                                    skip_key)
from cython_ext.states cimport (BATCH_ROWS_MAX, F_SKETCH, Batch, Input, State, merge_state, refer_input, state_block, state_bytes,
                                state_has_flag, state_is_sound, state_owns_block, update_state)

from cython_ext.column import BLOCK_ROWS_MAX
from cython_ext.group_index import KEY_BYTES_MAX, InvariantError, _test_hash_bits

__all__ = ["KEY_BYTES_MAX", "GroupTable", "InvariantError"]


@cython.final
cdef class GroupTable(GroupIndex):
    """The groups of some rows: keys of `key_kinds` (`job.types.Kind`), a state per entry of `state_kinds`
    (`cbt.aggregate.StateKind`). `seed` changes the key hash, and nothing else. Not thread-safe.

    Raises ValueError for kinds that do not exist. Methods that add rows or groups raise MemoryError, and OverflowError
    for a key beyond KEY_BYTES_MAX or more than 32 GiB of entries; rows before the failing batch then stay counted.
    """
    def __cinit__(self, key_kinds, state_kinds, uint64_t seed=0):
        self.key_kinds = tuple(int(kind) for kind in key_kinds)
        self.state_kinds = tuple(int(kind) for kind in state_kinds)
        self.key_count = len(self.key_kinds)
        self.state_count = len(self.state_kinds)
        self.seed = seed
        self.kinds = <int*>malloc(sizeof(int) * (self.key_count + 1))
        self.states = <State*>malloc(sizeof(State) * (self.state_count + 1))
        if self.kinds == NULL or self.states == NULL:
            raise MemoryError("no memory for a group table")
        for i, kind in enumerate(self.key_kinds):
            if not K_NULL <= kind <= K_TIMESTAMP:
                raise ValueError(f"a key of kind {kind}")
            self.kinds[i] = kind
        self._lay_out()

    cdef int _lay_out(self) except -1:
        cdef uint32_t offset = 0
        cdef int i, size
        for i in range(self.state_count):
            size = state_bytes(self.state_kinds[i])
            if size < 0:
                raise ValueError(f"a state of kind {self.state_kinds[i]}")
            self.states[i].kind = self.state_kinds[i]
            self.states[i].offset = offset
            self.states[i].flag = 0
            offset += size
        for i in range(self.state_count):
            if state_has_flag(self.states[i].kind):
                self.states[i].flag = offset
                offset += 1
        self.head = offset
        return 0

    def __dealloc__(self):
        cdef int i
        if self.states != NULL:
            for i in range(self.state_count):
                if self.heap and state_owns_block(self.states[i].kind):
                    self._free_blocks(&self.states[i])
        free(self.kinds)
        free(self.states)

    cdef void _free_blocks(self, const State* state) noexcept nogil:
        cdef size_t at = 0
        while at < self.arena_used:
            free(state_block(state, self.arena + at)[0])
            at += self._entry_bytes(self._key_size(at))

    @property
    def bytes_used(self):
        """Bytes of memory that the table has taken, free room in it included. O(1)."""
        return (sizeof(GroupTableSize) + self.arena_capacity + (sizeof(uint64_t) << self.slot_bits) + self.heap
                + sizeof(State) * self.state_count + sizeof(int) * self.key_count)

    @property
    def entry_bytes(self):
        """What the groups themselves take: what `update_until` bounds. O(1)."""
        return self.arena_used + self.heap

    def clear(self, bint keep_memory=True):
        """Removes all groups; the table keeps its memory for the next ones unless told otherwise. O(its memory)."""
        cdef int i
        if self.frozen:
            raise RuntimeError("the table has handed out its keys: it can no longer change")
        for i in range(self.state_count):
            if self.heap and state_owns_block(self.states[i].kind):
                self._free_blocks(&self.states[i])
        self.heap = 0
        self._empty(keep_memory)

    cdef int _check_open(self) except -1:
        if self.frozen:
            raise RuntimeError("the table has handed out its keys: it can no longer change")
        if self.ordered:
            raise RuntimeError("the table was filled from runs: its groups can only be read")
        return 0

    # rows

    def update(self, keys, inputs, masks, Py_ssize_t rows, Selection selection=None):
        """Adds rows: a column per key, an input and a mask per state, each of `rows` rows or constant. O(rows).

        A row counts for a state when the input is not NULL and the mask, a BOOLEAN column, is true; no input counts
        every row (COUNT only), no mask all of them. `selection` limits the rows; any order, repeats count again.
        Raises TypeError or ValueError for columns that do not fit, IndexError for a selected row that does not exist,
        RuntimeError when frozen, before anything changes.
        """
        self.update_until(keys, inputs, masks, rows, selection)

    def update_until(self, keys, inputs, masks, Py_ssize_t rows, Selection selection=None, Py_ssize_t start=0,
                     size_t bytes_max=SIZE_MAX):
        """`update` from the row (or selected row) of number `start` on, until the entries take `bytes_max` bytes: looked
        at every 256 rows. Returns the number of the row to go on with."""
        cdef KeyColumn* key_columns = NULL
        cdef Input* columns = NULL
        cdef Scratch scratch
        cdef Py_ssize_t done
        self._check_shapes(keys, inputs, masks, rows, selection)
        if start < 0:
            raise ValueError(f"row {start}")
        scratch.data = NULL
        scratch.capacity = 0
        key_columns = <KeyColumn*>malloc(sizeof(KeyColumn) * (self.key_count + 1))
        columns = <Input*>malloc(sizeof(Input) * (self.state_count + 1))
        try:
            if key_columns == NULL or columns == NULL:
                raise MemoryError("no memory for an update")
            for i, column in enumerate(keys):
                refer_key(&key_columns[<int>i], column, self.kinds[<int>i], rows)
            for i in range(self.state_count):
                refer_input(&columns[<int>i], self.states[<int>i].kind, inputs[i], masks[i], rows)
            with nogil:
                done = self._update(key_columns, columns, rows, selection, &scratch, start, bytes_max)
            raise_failure(<int>min(done, 0))
            return done
        finally:
            free(key_columns)
            free(columns)
            free(scratch.data)

    cdef int _check_shapes(self, keys, inputs, masks, Py_ssize_t rows, Selection selection) except -1:
        cdef Py_ssize_t i
        cdef uint32_t last = 0
        self._check_open()
        if len(keys) != self.key_count or len(inputs) != self.state_count or len(masks) != self.state_count:
            raise ValueError(f"{self.key_count} keys and {self.state_count} states, not {len(keys)} keys, {len(inputs)} "
                             f"inputs and {len(masks)} masks")
        if not 0 <= rows <= BLOCK_ROWS_MAX:
            raise ValueError(f"{rows} rows in a block")
        if selection is not None:
            with nogil:
                for i in range(selection.length):
                    last = max(last, selection.rows[i])
            if selection.length and <Py_ssize_t>last >= rows:
                raise IndexError(f"row {last} of {rows} is selected")
        return 0

    cdef Py_ssize_t _update(self, const KeyColumn* key_columns, const Input* columns, Py_ssize_t rows, Selection selection,
                            Scratch* scratch, Py_ssize_t start, size_t bytes_max) noexcept nogil:
        cdef Keys keys
        cdef Batch batch
        cdef Py_ssize_t total = rows if selection is None else selection.length, i
        cdef int s, failed
        while start < total:
            keys.length = min(BATCH_ROWS_MAX, total - start)
            if selection is None:
                for i in range(keys.length):
                    keys.rows[i] = <uint32_t>(start + i)
            else:
                memcpy(keys.rows, selection.rows + start, sizeof(uint32_t) * keys.length)
            failed = self._locate(key_columns, &keys, scratch)
            if failed:
                return failed
            batch.base = self.arena
            batch.refs = keys.refs
            batch.rows = keys.rows
            batch.length = keys.length
            for s in range(self.state_count):
                if update_state(&self.states[s], &batch, &columns[s], &self.heap):
                    return NO_MEMORY
            start += keys.length
            if self.arena_used + self.heap >= bytes_max:
                return start
        return start

    cdef int _locate(self, const KeyColumn* key_columns, Keys* keys, Scratch* scratch) noexcept nogil:
        cdef int failed
        if self.key_count == 0:
            failed = self._ensure_group()
            memset(keys.refs, 0, sizeof(uint32_t) * keys.length)
            return failed
        if self.key_count == 1 and self.kinds[0] == K_STRING:
            failed = refer_texts(key_columns, keys, scratch)
        else:
            failed = encode_keys(key_columns, self.key_count, keys, scratch)
        return failed if failed else self._find(keys, True)

    cdef int _ensure_group(self) noexcept nogil:
        cdef Keys keys
        if self.groups:
            return 0
        keys.length = 1
        keys.data[0] = NULL
        keys.sizes[0] = 0
        keys.lead_sizes[0] = 0
        keys.lead[0] = 0
        return self._find(&keys, True)

    def ensure_group(self):
        """Makes the one group of a table without keys, so that aggregates over no rows have a result row."""
        if self.key_count:
            raise ValueError("only a table without keys has a group without rows")
        self._check_open()
        raise_failure(self._ensure_group())

    # other tables

    def merge(self, GroupTable other not None):
        """Adds the groups of a table of the same kinds, which stays as it is and shares no memory. O(its groups)."""
        cdef int failed
        self._check_open()
        if other is self or other.key_kinds != self.key_kinds or other.state_kinds != self.state_kinds:
            raise ValueError("only another table of the same keys and states can be merged")
        with nogil:
            failed = self._merge(other)
        raise_failure(failed)

    cdef int _merge(self, GroupTable other) noexcept nogil:
        cdef Keys keys
        cdef size_t at = 0
        cdef Py_ssize_t i
        cdef int s, failed
        while at < other.arena_used:
            at = other._refer_entries(at, &keys, other.key_count)
            failed = self._find(&keys, True)
            if failed:
                return failed
            for s in range(self.state_count):
                for i in range(keys.length):
                    if merge_state(&self.states[s], self.arena + 8 * <size_t>keys.refs[i],
                                   other.arena + 8 * <size_t>keys.rows[i], &self.heap):
                        return NO_MEMORY
        return 0

    def count_distinct(self, GroupTable pairs not None, int key_count):
        """Per group the pairs that begin with its key: count(DISTINCT ...) as BIGINT. O(pairs).

        `pairs` is a table over our `key_count` keys and the distinct arguments; pairs with a NULL among the arguments
        do not count.
        """
        cdef Column out
        cdef uint32_t* ordinals
        cdef int failed = 0
        if self.ordered:
            raise RuntimeError("the table was filled from runs: it finds no keys")
        if key_count != self.key_count or pairs.key_count <= key_count or pairs.key_kinds[:key_count] != self.key_kinds:
            raise ValueError("the pairs must begin with the keys of the table and go on with the distinct arguments")
        out = new_column(K_BIGINT, self.groups, False, False)
        ordinals = <uint32_t*>malloc(sizeof(uint32_t) << self.slot_bits)
        if ordinals == NULL:
            raise MemoryError("no memory to count distinct values")
        with nogil:
            memset(out.data, 0, self.groups * sizeof(int64_t))
            self._number_slots(ordinals)
            self._count_pairs(pairs, ordinals, out.longs())
        free(ordinals)
        return out

    cdef void _number_slots(self, uint32_t* ordinals) noexcept nogil:
        # ordinals[slot] = number of the group whose entry the slot refers to
        cdef Keys keys
        cdef size_t at = 0, n = 0
        cdef Py_ssize_t i
        while at < self.arena_used:
            at = self._refer_entries(at, &keys, self.key_count)
            self._find(&keys, False)
            for i in range(keys.length):
                ordinals[keys.slots[i]] = <uint32_t>n
                n += 1

    cdef void _count_pairs(self, GroupTable pairs, const uint32_t* ordinals, int64_t* counts) noexcept nogil:
        cdef Keys keys
        cdef size_t at = 0
        cdef Py_ssize_t i
        while at < pairs.arena_used:
            at = pairs._refer_entries(at, &keys, self.key_count)
            self._find(&keys, False)
            for i in range(keys.length):
                if self.slots[keys.slots[i]] and not pairs._has_null(keys.data[i] + keys.sizes[i], self.key_count):
                    counts[ordinals[keys.slots[i]]] += 1

    cdef bint _has_null(self, const char* at, int first) noexcept nogil:
        cdef int k
        for k in range(first, self.key_count):
            if at[0] == 0:
                return True
            at = skip_key(at, self.kinds[k])
        return False

    # results

    def keys(self):
        """A column per key; row i is group i, in the order in which groups came. Freezes when a key is STRING."""
        cdef list columns = [new_column(kind, self.groups, False, True) for kind in self.key_kinds]
        cdef Column column
        cdef int k
        for k in range(self.key_count):
            column = columns[k]
            with nogil:
                self._decode_keys(k, column)
            if column.kind == K_STRING:
                column.owners.append(self)
                self.frozen = True
        return columns

    cdef void _decode_keys(self, int key, Column column) noexcept nogil:
        cdef size_t at = 0
        cdef Py_ssize_t row = 0
        cdef const char* bytes
        cdef int k
        memset(column.data, 0, self.groups * value_size(column.kind))
        while at < self.arena_used:
            bytes = self.arena + at + self.head + 4
            for k in range(key):
                bytes = skip_key(bytes, self.kinds[k])
            column.valid[row] = bytes[0] != 0
            if bytes[0]:
                read_value(column, row, bytes)
            row += 1
            at += self._entry_bytes(self._key_size(at))

    def finish(self, int state, int how, double parameter=0.0, int precision=0, int scale=0):
        """The finished values of a state, and for how many groups they overflowed (those are NULL). O(groups).

        `how` is a `cbt.aggregate.Finish`, `parameter` the p of a QUANTILE, `precision` that of a DECIMAL result, `scale`
        that of a DECIMAL argument. Freezes when values are STRING. Raises ValueError for a state without that finish.
        """
        cdef uint32_t* refs
        cdef size_t at = 0
        cdef Py_ssize_t row = 0
        if not 0 <= state < self.state_count:
            raise IndexError(f"state {state} of {self.state_count}")
        if not (0 <= precision <= 38 and 0 <= scale <= 38):
            raise ValueError(f"DECIMAL({precision},{scale})")
        if not 0.0 <= parameter <= 1.0:
            raise ValueError(f"a percentile of {parameter}")
        if how == F_SKETCH:
            return Column.from_list(K_STRING, [b64encode(sketch).decode() for sketch in self.sketches(state)]), 0
        refs = <uint32_t*>malloc(sizeof(uint32_t) * (self.groups + 1))
        if refs == NULL:
            raise MemoryError("no memory to finish a state")
        while at < self.arena_used:
            refs[row] = <uint32_t>(at >> 3)
            row += 1
            at += self._entry_bytes(self._key_size(at))
        try:
            finished = finish_state(&self.states[state], self.arena, refs, row, how, parameter, precision, scale, self)
        finally:
            free(refs)
        if (<Column>finished[0]).kind == K_STRING:
            self.frozen = True
        return finished

    def sketches(self, int state):
        """The HLL state of each group in DataSketches' compact bytes. Raises ValueError for other states."""
        cdef size_t at = 0
        cdef list out = []
        if not 0 <= state < self.state_count:
            raise IndexError(f"state {state} of {self.state_count}")
        while at < self.arena_used:
            out.append(serialize_state(&self.states[state], self.arena + at))
            at += self._entry_bytes(self._key_size(at))
        return out

    def check(self):
        """Raises InvariantError when the table is broken: a bug of ours. O(groups and slots)."""
        cdef size_t at = 0
        cdef int i
        self._check_index()
        while at < self.arena_used:
            for i in range(self.state_count):
                if not state_is_sound(&self.states[i], self.arena + at):
                    raise InvariantError(f"state {i} of the entry at {at} is broken")
            at += self._entry_bytes(self._key_size(at))


cdef struct GroupTableSize:
    # What an object of the class takes, roughly: its fields and Python's header.
    char[200] bytes
