"""Merging runs: any number of sorted runs into one, groups of equal keys into one group, as a stream.

The least hash among the runs is found with a tree of losers: one comparison per level for each group taken. A group whose
hash no other has is copied as it is, never decoded. Only groups of equal hash are looked at: ordered by key,
their states merged where keys are equal. Memory: a block per run and the block being written.
"""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort, realloc
from libc.string cimport memcpy, memset

from cython_ext.column cimport Column, K_BIGINT, new_column
from cython_ext.group_keys cimport KEY_SIZE_MAX, NO_MEMORY, same_bytes, skip_key
from cython_ext.groups cimport GroupTable
from cython_ext.hashing cimport hash_bytes
from cython_ext.pack cimport CORRUPT, Reader, read_varint, unzigzag, zigzag
from cython_ext.run cimport (ADDED_COLUMNS_MAX, Block, BlockWriter, RunShape, add_items, add_words, compare_keys, failure,
                             open_block, shape_hash, shape_skip)
from cython_ext.states cimport S_COUNT, merge_state

SOURCES_MAX = 1 << 20
PARTITIONS_LIMIT = 1 << 16

cdef int64_t ADDED_MAX = <int64_t>1 << 61
cdef uint64_t GREATEST = 0xFFFFFFFFFFFFFFFF   # hash

cdef extern from *:
    """
    // A loop over struct assignments becomes a call of memcpy, which costs more than the few bytes that it copies.
    #define elfstream_copy_reader(to, from) do { *(to) = *(from); __asm__ volatile(""); } while (0)
    """
    void copy_reader "elfstream_copy_reader"(Reader* to, const Reader* source) noexcept nogil

cdef struct Cursor:
    # One run at its next group; `items` and `columns` have an element per column.
    Reader* columns
    Reader* items
    uint32_t left            # groups of the block behind this one

cdef struct Player:
    # A run in the tree of losers, with the hash of its next group beside it: so nothing is looked up on the way to the root.
    uint64_t hash
    uint32_t run

cdef struct Taken:
    # A group taken from a run: `at` is its number among those taken.
    Reader key
    uint32_t at


cdef int _compare_taken(const void* a, const void* b) noexcept nogil:
    return compare_keys(&(<const Taken*>a).key, &(<const Taken*>b).key)


@cython.final
cdef class Merger:
    """The groups of several runs as one stream.

    `sources` are iterators of uncompressed blocks, each of ascending hashes. Errors of an iterator come through.
    """
    cdef readonly RunShape shape
    cdef list sources
    cdef list blocks             # per run: the block it is in
    cdef list before             # blocks that were left while groups were taken, whose items may still be in use
    cdef uint64_t left_at, takes
    cdef uint32_t count          # runs
    cdef Cursor* cursors
    cdef uint64_t* hashes        # of the next group of each run
    cdef uint8_t* done           # runs that have ended
    cdef Player* losers          # [0]: the winner, the run with the least hash
    cdef Reader* memory
    cdef BlockWriter writer
    cdef char* entry             # an entry for states to be merged in, then one for what is merged into them
    cdef size_t head
    # groups taken, all of one hash
    cdef uint64_t hash
    cdef Reader* items
    cdef Taken* taken
    cdef uint32_t taken_count, taken_max

    def __cinit__(self, RunShape shape not None, sources):
        cdef uint32_t i
        cdef int columns = shape.columns
        self.shape = shape
        self.sources = [iter(source) for source in sources]
        if len(self.sources) > SOURCES_MAX:
            raise ValueError(f"{len(self.sources)} runs to merge at once")
        self.count = <uint32_t>len(self.sources)
        self.blocks = [None] * self.count
        self.before = []
        self.writer = BlockWriter(shape)
        self.head = (shape.table.head + 8) & ~<size_t>7
        self.taken_max = 4
        self.cursors = <Cursor*>malloc(sizeof(Cursor) * (self.count + 1))
        self.hashes = <uint64_t*>malloc(sizeof(uint64_t) * (self.count + 1))
        self.done = <uint8_t*>malloc(self.count + 1)
        self.losers = <Player*>malloc(sizeof(Player) * (self.count + 1))
        self.memory = <Reader*>malloc(sizeof(Reader) * (2 * columns * <size_t>self.count + 1))
        self.items = <Reader*>malloc(sizeof(Reader) * columns * self.taken_max)
        self.taken = <Taken*>malloc(sizeof(Taken) * self.taken_max)
        self.entry = <char*>malloc(2 * self.head)
        if (self.cursors == NULL or self.hashes == NULL or self.done == NULL or self.losers == NULL or self.memory == NULL
                or self.items == NULL or self.taken == NULL or self.entry == NULL):
            raise MemoryError("no memory for a merge")
        for i in range(self.count):
            self.cursors[i].columns = self.memory + 2 * columns * <size_t>i
            self.cursors[i].items = self.cursors[i].columns + columns
            self.cursors[i].left = 0
            self.hashes[i] = 0
            self.done[i] = 0
            failure(self._next_block(i))
        self._build()

    def __dealloc__(self):
        free(self.cursors)
        free(self.hashes)
        free(self.done)
        free(self.losers)
        free(self.memory)
        free(self.items)
        free(self.taken)
        free(self.entry)

    # runs

    cdef int _next_block(self, uint32_t run) except -100 with gil:
        """Opens the next block of a run and reads its first group."""
        cdef Block block
        cdef bytes data
        cdef uint64_t last = self.hashes[run]
        cdef bint first = self.blocks[run] is None
        cdef int failed
        if self.left_at != self.takes:
            self.before.clear()
            self.left_at = self.takes
        self.before.append(self.blocks[run])
        self.blocks[run] = None
        for data in self.sources[run]:
            self.blocks[run] = data
            open_block(self.shape, data, &block, self.cursors[run].columns)
            self.cursors[run].left = block.groups
            failed = self._read(run)
            if not failed and not first and self.hashes[run] == last:
                return CORRUPT
            return failed
        self.done[run] = 1
        self.hashes[run] = GREATEST
        return 0

    cdef int _read(self, uint32_t run) noexcept nogil:
        cdef Cursor* cursor = &self.cursors[run]
        cdef uint64_t hash
        cursor.left -= 1
        if shape_skip(self.shape, cursor.columns, cursor.items):
            return CORRUPT
        if cursor.items[0].end - cursor.items[0].at > KEY_SIZE_MAX:
            return CORRUPT
        hash = shape_hash(self.shape, cursor.items)
        if hash < self.hashes[run]:
            return CORRUPT
        self.hashes[run] = hash
        return 0

    cdef inline bint _before(self, uint32_t a, uint32_t b) noexcept nogil:
        # Runs that have ended come last, behind one whose hash is the greatest there is.
        if self.hashes[a] != self.hashes[b]:
            return self.hashes[a] < self.hashes[b]
        return self.done[a] < self.done[b]

    cdef void _build(self) noexcept nogil:
        # Whoever comes to a node first waits there; the second plays, and the winner goes on.
        cdef uint32_t i, run, other, node, none = 0xFFFFFFFF
        for i in range(self.count + 1):
            self._place(i, none)
        for i in range(self.count):
            run = i
            node = (i + self.count) >> 1
            while node:
                other = self.losers[node].run
                if other == none:
                    self._place(node, run)
                    run = none
                    break
                if self._before(other, run):
                    self._place(node, run)
                    run = other
                node >>= 1
            if run != none:
                self._place(0, run)

    cdef inline void _place(self, uint32_t node, uint32_t run) noexcept nogil:
        self.losers[node].run = run
        self.losers[node].hash = self.hashes[run] if run < self.count else GREATEST

    cdef void _replay(self, uint32_t run) noexcept nogil:
        # Who wins is as good as random: exchanging by arithmetic costs less than branches that are guessed wrong.
        cdef uint32_t node = (run + self.count) >> 1, turn
        cdef uint64_t hash = self.hashes[run], change
        cdef Player* loser
        if hash == GREATEST:
            self._replay_last(run)
            return
        while node:
            loser = &self.losers[node]
            change = 0 - <uint64_t>(loser.hash < hash)
            turn = (loser.run ^ run) & <uint32_t>change
            change &= loser.hash ^ hash
            loser.hash ^= change
            loser.run ^= turn
            hash ^= change
            run ^= turn
            node >>= 1
        self.losers[0].hash = hash
        self.losers[0].run = run

    cdef void _replay_last(self, uint32_t run) noexcept nogil:
        # For a run that has ended or has the greatest hash: those two have the same number here.
        cdef uint32_t node = (run + self.count) >> 1, other
        while node:
            other = self.losers[node].run
            if self._before(other, run):
                self._place(node, run)
                run = other
            node >>= 1
        self._place(0, run)

    cdef inline bint _more(self) noexcept nogil:
        if self.count == 0:
            return False
        return self.losers[0].hash != GREATEST or not self.done[self.losers[0].run]

    # groups

    cdef int _take_one(self) except -100 nogil:
        """Takes the next group off its run; its items stay valid until groups of another hash are taken."""
        cdef uint32_t run = self.losers[0].run
        cdef Cursor* cursor = &self.cursors[run]
        cdef int failed, columns = self.shape.columns, c
        cdef Reader* to
        if self.taken_count == self.taken_max and self._grow_taken():
            return NO_MEMORY
        to = self.items + columns * <size_t>self.taken_count
        for c in range(columns):
            copy_reader(to + c, cursor.items + c)
        self.taken_count += 1
        if cursor.left:
            failed = self._read(run)
        else:
            for c in range(columns):
                if cursor.columns[c].at != cursor.columns[c].end:
                    return CORRUPT
            failed = self._next_block(run)
        if failed:
            return failed
        self._replay(run)
        return 0

    cdef int _grow_taken(self) noexcept nogil:
        cdef uint32_t want = 2 * self.taken_max
        cdef Reader* items = <Reader*>realloc(self.items, sizeof(Reader) * self.shape.columns * want)
        cdef Taken* taken
        if items == NULL:
            return NO_MEMORY
        self.items = items
        taken = <Taken*>realloc(self.taken, sizeof(Taken) * want)
        if taken == NULL:
            return NO_MEMORY
        self.taken = taken
        self.taken_max = want
        return 0

    cdef int _take(self) except -100 nogil:
        """Takes all groups of the next hash, sorted by key in `taken`.

        Groups of one hash are in one block of a run, so that meanwhile a run opens one block at most: all items are valid.
        """
        cdef uint32_t i
        cdef int failed
        self.hash = self.losers[0].hash
        self.taken_count = 0
        self.takes += 1
        failed = self._take_one()
        if failed:
            return failed
        if not self._more() or self.losers[0].hash != self.hash:
            self.taken[0].at = 0
            return 0
        while self._more() and self.losers[0].hash == self.hash:
            failed = self._take_one()
            if failed:
                return failed
        for i in range(self.taken_count):
            self.taken[i].key = self.items[self.shape.columns * <size_t>i]
            self.taken[i].at = i
        if self.taken_count > 2:
            qsort(self.taken, self.taken_count, sizeof(Taken), &_compare_taken)
        elif _compare_taken(&self.taken[0], &self.taken[1]) > 0:
            self.taken[0].key, self.taken[1].key = self.taken[1].key, self.taken[0].key
            self.taken[0].at, self.taken[1].at = 1, 0
        return 0

    cdef inline uint32_t _equal(self, uint32_t first) noexcept nogil:
        # One past the last group taken that has the key of `first`.
        cdef uint32_t end = first + 1
        while end < self.taken_count and _compare_taken(&self.taken[first], &self.taken[end]) == 0:
            end += 1
        return end

    cdef int _combine(self, uint32_t first, uint32_t end, char* entry, size_t* heap) noexcept nogil:
        # The states of groups first ... end - 1 in an entry of zeros.
        cdef char* other = self.entry + self.head
        cdef int s, failed
        cdef size_t spent = 0
        cdef uint32_t i
        failed = self.shape.unpack(self.items + self.shape.columns * <size_t>self.taken[first].at, entry, heap)
        for i in range(first + 1, end):
            if failed:
                return failed
            memset(other, 0, self.head)
            failed = self.shape.unpack(self.items + self.shape.columns * <size_t>self.taken[i].at, other, &spent)
            if not failed:
                for s in range(self.shape.table.state_count):
                    if merge_state(&self.shape.table.states[s], entry, other, heap):
                        failed = NO_MEMORY
            self.shape.free_blocks(other)
        return failed

    cdef bint _add(self, uint32_t first, uint32_t end, uint64_t* words) noexcept nogil:
        # As `_combine` where every state is a count or a sum: the items to be written, without an entry. Not when a number
        # is large, or damaged: that is left to `_combine`.
        cdef Reader item
        cdef uint64_t word = 0
        cdef int64_t total
        cdef uint32_t i
        cdef int c
        for c in range(1, self.shape.columns):
            total = 0
            for i in range(first, end):
                item = self.items[self.shape.columns * <size_t>self.taken[i].at + c]
                if read_varint(&item, &word) or item.at != item.end or word > ADDED_MAX:
                    return False
                total += unzigzag(word) if self.shape.signed[c] else <int64_t>word
                if not -ADDED_MAX < total < ADDED_MAX:
                    return False
            words[c] = zigzag(total) if self.shape.signed[c] else <uint64_t>total
        return True

    cdef int _write(self) noexcept nogil:
        cdef uint32_t first = 0, end
        cdef Reader* key
        cdef uint64_t words[ADDED_COLUMNS_MAX]
        cdef size_t heap = 0
        cdef int failed
        if self.taken_count == 1:
            return add_items(self.writer, self.hash, self.items)
        while first < self.taken_count:
            end = self._equal(first)
            key = &self.taken[first].key
            if end == first + 1:
                failed = add_items(self.writer, self.hash, self.items + self.shape.columns * <size_t>self.taken[first].at)
            elif self.shape.additive and self._add(first, end, words):
                failed = add_words(self.writer, self.hash, key, words)
            else:
                memset(self.entry, 0, self.head)
                failed = self._combine(first, end, self.entry, &heap)
                if not failed:
                    failed = self.writer.add_entry(self.hash, key.at, key.end - key.at, self.entry)
                self.shape.free_blocks(self.entry)
            if failed:
                return failed
            first = end
        return 0

    cdef int _fill(self, GroupTable table) noexcept nogil:
        cdef uint32_t first = 0, end
        cdef Reader* key
        cdef char* entry = NULL
        cdef int failed
        if self.taken_count == 1:
            self.taken[0].key = self.items[0]
        while first < self.taken_count:
            end = self._equal(first)
            key = &self.taken[first].key
            failed = table._append(key.at, key.end - key.at, &entry)
            if not failed:
                failed = self._combine(first, end, entry, &table.heap)
            if failed:
                return failed
            first = end
        return 0

    cdef int _write_until(self, size_t bytes_max, uint64_t until, bint bounded) except -100 nogil:
        cdef int failed
        while self._more() and self.writer.used < bytes_max:
            if bounded and self.losers[0].hash >= until:
                break
            failed = self._take()
            if failed:
                return failed
            failed = self._write()
            if failed:
                return failed
        return 0

    # what callers use

    def next_block(self, size_t bytes_max, until=None):
        """The next block, of about `bytes_max` bytes in columns, with hashes below `until`; None when there is no group."""
        cdef uint64_t bound = 0 if until is None else until
        cdef bint bounded = until is not None
        cdef int failed
        with nogil:
            failed = self._write_until(bytes_max, bound, bounded)
        failure(failed)
        return self.writer.cut() if self.writer.groups else None

    def skip_until(self, uint64_t hash):
        """Passes over all groups of lesser hash."""
        cdef int failed = 0
        with nogil:
            while self._more() and not failed and self.losers[0].hash < hash:
                failed = self._take()
        failure(failed)

    def fill(self, GroupTable table not None, size_t groups_max, size_t bytes_max, until=None):
        """Appends groups to a table that holds lesser ones or none, until it has `groups_max` or takes `bytes_max`.

        Groups of equal hash stay together, so that limits may be passed by them. Returns whether there are more.
        """
        cdef uint64_t bound = 0 if until is None else until
        cdef bint bounded = until is not None
        cdef int failed = 0
        if table.frozen or (table.groups and not table.ordered) or table.key_kinds != self.shape.table.key_kinds or (
                table.state_kinds != self.shape.table.state_kinds):
            raise ValueError("only an empty table of the same keys and states can be filled")
        with nogil:
            while self._more() and table.groups < groups_max and table.arena_used + table.heap < bytes_max:
                if bounded and self.losers[0].hash >= bound:
                    break
                failed = self._take()
                if not failed:
                    failed = self._fill(table)
                if failed:
                    break
        failure(failed)
        return self._more() and not (bounded and self.losers[0].hash >= bound)


cdef enum:
    AHEAD = 16           # entries that the cache fetches in advance
    MOVES_MAX = 64       # per slot, of a sort by insertion

cdef extern from *:
    """
    #define elfstream_fetch(address) __builtin_prefetch(address)
    """
    void prefetch "elfstream_fetch"(const void* address) noexcept nogil


# ---- tables in order

cdef struct Place:
    uint64_t hash
    uint64_t slot
    const char* key      # its size in 4 bytes, then the key


cdef int _compare_places(const void* left, const void* right) noexcept nogil:
    cdef const Place* a = <const Place*>left
    cdef const Place* b = <const Place*>right
    cdef Reader a_key, b_key
    cdef uint32_t a_size, b_size
    if a.hash != b.hash:
        return 1 if a.hash > b.hash else -1
    memcpy(&a_size, a.key, 4)
    memcpy(&b_size, b.key, 4)
    a_key.at = a.key + 4
    a_key.end = a_key.at + a_size
    b_key.at = b.key + 4
    b_key.end = b_key.at + b_size
    return compare_keys(&a_key, &b_key)


cdef int _compare_slots(const void* left, const void* right) noexcept nogil:
    cdef uint64_t a = (<const uint64_t*>left)[0], b = (<const uint64_t*>right)[0]
    return (a > b) - (a < b)


cdef void _insert(uint64_t* slots, size_t n) noexcept nogil:
    # Few are out of order, and by little, unless hashes are forced to collide.
    cdef size_t i, j, moves = n * MOVES_MAX
    cdef uint64_t held
    for i in range(1, n):
        held = slots[i]
        j = i
        while j and slots[j - 1] > held:
            slots[j] = slots[j - 1]
            j -= 1
        slots[j] = held
        if i - j > moves:
            qsort(slots, n, sizeof(uint64_t), &_compare_slots)
            return
        moves -= i - j


@cython.final
cdef class SortedTable:
    """The groups of a table in order of (hash, key), block by block. The table must not change meanwhile.

    The slots of its index lie nearly in that order: a group is a few slots behind the one that the top of its hash names.
    """
    cdef readonly RunShape shape
    cdef GroupTable table
    cdef uint64_t* slots         # those in use: top half of the hash above (reference of the entry + 1), sorted
    cdef size_t at
    cdef BlockWriter writer

    def __cinit__(self, RunShape shape not None, GroupTable table not None):
        cdef int failed
        if table.key_kinds != shape.table.key_kinds or table.state_kinds != shape.table.state_kinds or (
                table.seed != shape.table.seed or table.hash_mask != shape.table.hash_mask):
            raise ValueError("the table is of other keys, states or hashes than its runs")
        if table.ordered:
            raise ValueError("the table was filled from runs: it has no index to sort")
        self.shape = shape
        self.table = table
        self.writer = BlockWriter(shape)
        self.slots = <uint64_t*>malloc(sizeof(uint64_t) * (table.groups + 1))
        if self.slots == NULL:
            raise MemoryError("no memory to sort a table")
        with nogil:
            failed = self._sort()
        failure(failed)

    def __dealloc__(self):
        free(self.slots)

    cdef int _sort(self) noexcept nogil:
        cdef size_t at, n = 0, end
        cdef int shift = 32 - self.table.slot_bits, failed
        cdef uint64_t slot
        for at in range(<size_t>1 << self.table.slot_bits):
            slot = self.table.slots[at]
            if slot and slot >> 32 >> shift <= at:
                self.slots[n] = slot
                n += 1
        # Groups for which there was no slot any more at the end are at the beginning.
        for at in range(<size_t>1 << self.table.slot_bits):
            slot = self.table.slots[at]
            if slot == 0:
                break
            if slot >> 32 >> shift > at:
                self.slots[n] = slot
                n += 1
        _insert(self.slots, n)
        at = 0
        while at < n:
            end = at + 1
            while end < n and self.slots[end] >> 32 == self.slots[at] >> 32:
                end += 1
            if end - at > 1:
                failed = self._sort_equal(self.slots + at, end - at)
                if failed:
                    return failed
            at = end
        return 0

    cdef int _sort_equal(self, uint64_t* slots, size_t n) noexcept nogil:
        # Groups whose hashes have the same top half.
        cdef Place* places = <Place*>malloc(sizeof(Place) * n)
        cdef size_t i
        if places == NULL:
            return NO_MEMORY
        for i in range(n):
            places[i].slot = slots[i]
            places[i].key = self._entry(slots[i]) + self.table.head
            places[i].hash = self._hash(places[i].key)
        qsort(places, n, sizeof(Place), &_compare_places)
        for i in range(n):
            slots[i] = places[i].slot
        free(places)
        return 0

    cdef inline char* _entry(self, uint64_t slot) noexcept nogil:
        return self.table.arena + 8 * <size_t>(<uint32_t>slot - 1)

    cdef inline uint64_t _hash(self, const char* sized) noexcept nogil:
        cdef Reader key
        cdef uint32_t size
        memcpy(&size, sized, 4)
        key.at = sized + 4
        key.end = key.at + size
        return shape_hash(self.shape, &key)

    cdef int _write_until(self, size_t bytes_max, uint64_t until, bint bounded) noexcept nogil:
        cdef char* entry
        cdef const char* key
        cdef uint64_t hash
        cdef uint32_t size
        cdef size_t n = self.table.groups
        cdef int failed
        while self.at < n:
            entry = self._entry(self.slots[self.at])
            key = entry + self.table.head
            hash = self._hash(key)
            if bounded and hash >= until:
                break
            if self.writer.used >= bytes_max and hash != self.writer.last:
                break
            if self.at + AHEAD < n:
                prefetch(self._entry(self.slots[self.at + AHEAD]))
                prefetch(self._entry(self.slots[self.at + AHEAD]) + self.table.head + 20)
            memcpy(&size, key, 4)
            failed = self.writer.add_entry(hash, key + 4, size, entry)
            if failed:
                return failed
            self.at += 1
        return 0

    def next_block(self, size_t bytes_max, until=None):
        """The next block, of about `bytes_max` bytes in columns, with hashes below `until`; None when there is no group."""
        cdef uint64_t bound = 0 if until is None else until
        cdef bint bounded = until is not None
        cdef int failed
        with nogil:
            failed = self._write_until(bytes_max, bound, bounded)
        failure(failed)
        return self.writer.cut() if self.writer.groups else None


# ---- filled tables side by side

def last_hash(GroupTable table not None):
    """The greatest hash of a table that was filled from runs and has a group. O(groups)."""
    cdef size_t at = 0, last = 0
    if not table.ordered or table.groups == 0:
        raise ValueError("only a table filled from runs is in order of hash")
    while at < table.arena_used:
        last = at
        at += table._entry_bytes(table._key_size(at))
    return hash_bytes(table.seed, 0, 0, table.arena + last + table.head + 4, table._key_size(last)) & table.hash_mask


def counts_in_order(GroupTable groups not None, GroupTable counts not None):
    """A BIGINT column: for each group of a filled table the COUNT that `counts`, filled as well, has for its key, else 0.

    `counts` keeps one COUNT under the same keys. Raises ValueError when it has keys that are not among the groups. O(groups).
    """
    cdef Column out
    cdef size_t a = 0, b = 0, row = 0
    cdef uint32_t size
    if not groups.ordered or groups.key_kinds != counts.key_kinds or counts.state_kinds != (S_COUNT,) or (
            counts.groups and not counts.ordered):
        raise ValueError("counts are looked up between filled tables of the same keys")
    out = new_column(K_BIGINT, groups.groups, False, False)
    while a < groups.arena_used:
        size = groups._key_size(a)
        out.longs()[row] = 0
        if b < counts.arena_used and counts._key_size(b) == size and same_bytes(
                groups.arena + a + groups.head + 4, counts.arena + b + counts.head + 4, size):
            memcpy(out.longs() + row, counts.arena + b + counts.states[0].offset, 8)
            b += counts._entry_bytes(size)
        row += 1
        a += groups._entry_bytes(size)
    if b < counts.arena_used:
        raise ValueError("there are counts of keys that are not among the groups")
    return out


def partitions_of(GroupTable table not None, int key_count, int partitions):
    """A BIGINT column: for each group of a table the partition of its first `key_count` keys, by their hash: p where that is
    from p / `partitions` of all hashes on and below (p + 1) / `partitions`. O(groups)."""
    cdef Column out
    cdef size_t at = 0, row = 0
    cdef const char* start
    cdef const char* end
    cdef uint64_t hash
    cdef int key
    if not 0 <= key_count <= table.key_count or not 1 <= partitions <= PARTITIONS_LIMIT:
        raise ValueError(f"{partitions} partitions by {key_count} of {table.key_count} keys")
    out = new_column(K_BIGINT, table.groups, False, False)
    while at < table.arena_used:
        start = table.arena + at + table.head + 4
        end = start
        for key in range(key_count):
            end = skip_key(end, table.kinds[key])
        hash = hash_bytes(table.seed, 0, 0, start, end - start) & table.hash_mask
        out.longs()[row] = ((hash >> 32) * partitions + (((hash & 0xFFFFFFFF) * partitions) >> 32)) >> 32
        row += 1
        at += table._entry_bytes(table._key_size(at))
    return out
