"""The index of a group table: distinct encoded keys, each with an entry of some bytes in front.

Open addressing with linear probing over 8-byte slots. Entries lie one behind the other in insertion order, each `[head]
[key size][key]`, padded to 8 bytes; what the head holds is the business of `GroupTable`.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

from cython_ext.group_keys cimport KEY_SIZE_MAX, NO_MEMORY, TOO_LARGE, Keys, same_bytes, skip_key
from cython_ext.hashing cimport hash_bytes
from cython_ext.states cimport BATCH_ROWS_MAX

cdef extern from *:
    """
    #define elfstream_prefetch(address) __builtin_prefetch(address)
    """
    void prefetch "elfstream_prefetch"(const void* address) noexcept nogil

KEY_BYTES_MAX = 1 << 30

cdef enum:
    SLOT_BITS_MIN = 4
    SLOT_BITS_MAX = 32
    ARENA_BYTES_MIN = 256
    ARENA_DOUBLES_TO = 1 << 20   # bytes; then it grows by a quarter, for realloc need not copy such blocks

cdef size_t ARENA_BYTES_MAX = (<size_t>8 << 32) - 16  # what 32-bit references of 8 bytes reach

cdef uint64_t _hash_mask = <uint64_t>0xFFFFFFFFFFFFFFFF


def _test_hash_bits(int bits=64):
    """Keeps only the top `bits` of all key hashes in tables created from now on: tests force collisions with it."""
    global _hash_mask
    if not 0 <= bits <= 64:
        raise ValueError(f"{bits} bits of a 64-bit hash")
    _hash_mask = (<uint64_t>0xFFFFFFFFFFFFFFFF << (64 - bits)) if bits else 0


class InvariantError(RuntimeError):
    """A structure is broken: a bug of ours, not of its user."""


cdef inline size_t _groups_max(int bits) noexcept nogil:
    # Three quarters: linear probing then looks at 2.5 slots for a key that is there, 8.5 for a new one.
    return (<size_t>3 << bits) // 4


cdef inline bint _is_key(const Keys* keys, Py_ssize_t i, const char* stored) noexcept nogil:
    # Whether key i is the one stored as [size][bytes].
    cdef uint32_t size
    memcpy(&size, stored, 4)
    if size != keys.sizes[i] + keys.lead_sizes[i]:
        return False
    stored += 4
    if keys.lead_sizes[i]:
        if (<uint8_t>stored[0]) != keys.lead[i]:
            return False
        stored += 1
    return same_bytes(stored, keys.data[i], keys.sizes[i])


cdef class GroupIndex:
    def __cinit__(self, *arguments, **options):
        self.slots = <uint64_t*>calloc(1 << SLOT_BITS_MIN, sizeof(uint64_t))
        if self.slots == NULL:
            raise MemoryError("no memory for a group table")
        self.slot_bits = SLOT_BITS_MIN
        self.groups_max = _groups_max(SLOT_BITS_MIN)
        self.hash_mask = _hash_mask

    def __dealloc__(self):
        free(self.slots)
        free(self.arena)

    def __len__(self):
        """Groups. O(1)."""
        return self.groups

    def encoded_keys(self):
        """The encoded key of each group (docs/AGGREGATES.md), in the order of `keys()`. O(groups)."""
        cdef size_t at = 0
        cdef list out = []
        while at < self.arena_used:
            out.append((self.arena + at + self.head + 4)[: self._key_size(at)])
            at += self._entry_bytes(self._key_size(at))
        return out

    cdef int _reserve(self, size_t size) noexcept nogil:
        cdef size_t want = self.arena_capacity
        cdef char* arena
        if size > ARENA_BYTES_MAX - self.arena_used:
            return TOO_LARGE
        while want < self.arena_used + size:
            if want < ARENA_BYTES_MIN:
                want = ARENA_BYTES_MIN
            else:
                want += want if want < ARENA_DOUBLES_TO else (want // 4 + 7) & ~<size_t>7
        if want > ARENA_BYTES_MAX:
            want = ARENA_BYTES_MAX
        arena = <char*>realloc(self.arena, want)
        if arena == NULL:
            return NO_MEMORY
        self.arena = arena
        self.arena_capacity = want
        return 0

    cdef int _grow_slots(self) noexcept nogil:
        # Home slots are the top bits of the tags, so the old slots fill the new ones nearly in order.
        cdef int bits = self.slot_bits + 1, shift = 32 - bits
        cdef size_t old = <size_t>1 << self.slot_bits, mask = (<size_t>1 << bits) - 1, i, at
        cdef uint64_t* slots
        if bits > SLOT_BITS_MAX:
            return TOO_LARGE
        slots = <uint64_t*>calloc(mask + 1, sizeof(uint64_t))
        if slots == NULL:
            return NO_MEMORY
        for i in range(old):
            if self.slots[i]:
                at = self.slots[i] >> 32 >> shift
                while slots[at]:
                    at = (at + 1) & mask
                slots[at] = self.slots[i]
        free(self.slots)
        self.slots = slots
        self.slot_bits = bits
        self.groups_max = _groups_max(bits)
        return 0

    cdef int _insert(self, Keys* keys, Py_ssize_t i) noexcept nogil:
        # Writes the entry of key i and puts it into the free slot slots[i]; 1 when slots had to move for it. What fails
        # leaves the index as it was.
        cdef size_t key_size = <size_t>keys.sizes[i] + keys.lead_sizes[i], at = self.arena_used
        cdef size_t size = self._entry_bytes(key_size)
        cdef uint32_t stored = <uint32_t>key_size
        cdef char* entry
        cdef int failed, moved = 0
        if key_size > KEY_SIZE_MAX:
            return TOO_LARGE
        if size > self.arena_capacity - at:
            failed = self._reserve(size)
            if failed:
                return failed
        if self.groups == self.groups_max:
            failed = self._grow_slots()
            if failed:
                return failed
            moved = 1
            keys.slots[i] = self._free_slot(keys.tags[i])
        entry = self.arena + at
        memset(entry, 0, self.head)
        memcpy(entry + self.head, &stored, 4)
        entry += self.head + 4
        if keys.lead_sizes[i]:
            entry[0] = <char>keys.lead[i]
            entry += 1
        if keys.sizes[i]:
            memcpy(entry, keys.data[i], keys.sizes[i])
        keys.refs[i] = <uint32_t>(at >> 3)
        self.slots[keys.slots[i]] = (<uint64_t>keys.tags[i] << 32) | ((at >> 3) + 1)
        self.arena_used = at + size
        self.groups += 1
        return moved

    cdef int _append(self, const char* key, size_t key_size, char** entry) noexcept nogil:
        cdef size_t at = self.arena_used, size = self._entry_bytes(key_size)
        cdef uint32_t stored = <uint32_t>key_size
        cdef int failed
        if key_size > KEY_SIZE_MAX:
            return TOO_LARGE
        if size > self.arena_capacity - at:
            failed = self._reserve(size)
            if failed:
                return failed
        self.ordered = True
        entry[0] = self.arena + at
        memset(entry[0], 0, self.head)
        memcpy(entry[0] + self.head, &stored, 4)
        if key_size:
            memcpy(entry[0] + self.head + 4, key, key_size)
        self.arena_used = at + size
        self.groups += 1
        return 0

    cdef int _empty(self, bint keep_memory) except -1:
        # Forgets all entries; what they point to is gone already.
        cdef uint64_t* slots
        self.arena_used = 0
        self.groups = 0
        self.ordered = False
        if not keep_memory:
            slots = <uint64_t*>calloc(1 << SLOT_BITS_MIN, sizeof(uint64_t))
            if slots == NULL:
                raise MemoryError("no memory for a group table")
            free(self.slots)
            free(self.arena)
            self.slots = slots
            self.arena = NULL
            self.arena_capacity = 0
            self.slot_bits = SLOT_BITS_MIN
            self.groups_max = _groups_max(SLOT_BITS_MIN)
        memset(self.slots, 0, sizeof(uint64_t) << self.slot_bits)
        return 0

    cdef size_t _free_slot(self, uint32_t tag) noexcept nogil:
        cdef size_t mask = (<size_t>1 << self.slot_bits) - 1, at = tag >> (32 - self.slot_bits)
        while self.slots[at]:
            at = (at + 1) & mask
        return at

    cdef void _touch(self, Keys* keys) noexcept nogil:
        # Hashes a batch and has the cache fetch first its slots, then the entries that are likely meant.
        cdef Py_ssize_t i
        cdef int shift = 32 - self.slot_bits
        cdef size_t mask = (<size_t>1 << self.slot_bits) - 1, at
        cdef uint64_t slot
        cdef const uint64_t* slots = self.slots
        cdef const char* entry
        for i in range(keys.length):
            keys.tags[i] = <uint32_t>((hash_bytes(self.seed, keys.lead[i], keys.lead_sizes[i], keys.data[i],
                                                  keys.sizes[i]) & self.hash_mask) >> 32)
            keys.slots[i] = keys.tags[i] >> shift
            prefetch(slots + keys.slots[i])
        for i in range(keys.length):
            at = keys.slots[i]
            slot = slots[at]
            while slot:
                if <uint32_t>(slot >> 32) == keys.tags[i]:
                    entry = self.arena + 8 * <size_t>(<uint32_t>slot - 1)
                    prefetch(entry)
                    prefetch(entry + self.head + 3 + keys.sizes[i])
                    break
                at = (at + 1) & mask
                slot = slots[at]
            keys.slots[i] = at

    cdef int _find(self, Keys* keys, bint insert) noexcept nogil:
        """Fills refs (insert) or leaves in slots where each key is; a key that is not there has a free slot."""
        cdef Py_ssize_t i
        cdef size_t mask = (<size_t>1 << self.slot_bits) - 1, at
        cdef uint64_t slot
        cdef bint moved = False
        cdef int done
        self._touch(keys)
        for i in range(keys.length):
            at = keys.tags[i] >> (32 - self.slot_bits) if moved else keys.slots[i]
            while True:
                slot = self.slots[at]
                if slot == 0:
                    break
                if <uint32_t>(slot >> 32) == keys.tags[i]:
                    if _is_key(keys, i, self.arena + 8 * <size_t>(<uint32_t>slot - 1) + self.head):
                        break
                at = (at + 1) & mask
            keys.slots[i] = at
            if slot:
                keys.refs[i] = <uint32_t>slot - 1
            elif insert:
                done = self._insert(keys, i)
                if done < 0:
                    return done
                if done:
                    moved = True
                    mask = (<size_t>1 << self.slot_bits) - 1
        return 0

    cdef size_t _refer_entries(self, size_t at, Keys* keys, int key_count) noexcept nogil:
        """The next batch of our entries as keys, of which only the first key_count parts if that is not all of them;
        `rows` holds the references. Returns where to go on."""
        cdef const char* key
        cdef const char* end
        cdef int k
        cdef uint32_t size
        keys.length = 0
        while at < self.arena_used and keys.length < BATCH_ROWS_MAX:
            size = self._key_size(at)
            key = self.arena + at + self.head + 4
            keys.rows[keys.length] = <uint32_t>(at >> 3)
            keys.data[keys.length] = key
            keys.sizes[keys.length] = size
            keys.lead_sizes[keys.length] = 0
            keys.lead[keys.length] = 0
            if key_count < self.key_count:
                end = key
                for k in range(key_count):
                    end = skip_key(end, self.kinds[k])
                keys.sizes[keys.length] = <uint32_t>(end - key)
            keys.length += 1
            at += self._entry_bytes(size)
        return at

    cdef int _check_index(self) except -1:
        cdef size_t at = 0, used = 0, i
        cdef Py_ssize_t n = 0
        for i in range(<size_t>1 << self.slot_bits):
            used += self.slots[i] != 0
        if self.ordered:
            used = self.groups
        elif self.groups > self.groups_max:
            used = 0
        if used != self.groups:
            raise InvariantError(f"{used} slots in use, {self.groups} groups, at most {self.groups_max}")
        while at < self.arena_used:
            self._check_key(at)
            at += self._entry_bytes(self._key_size(at))
            n += 1
        if at != self.arena_used or n != <Py_ssize_t>self.groups or at > self.arena_capacity:
            raise InvariantError(f"{n} entries in {at} bytes, not {self.groups} in {self.arena_used}")
        return 0

    cdef int _check_key(self, size_t at) except -1:
        cdef Keys keys
        cdef uint32_t size = self._key_size(at)
        cdef const char* key = self.arena + at + self.head + 4
        cdef const char* end = key
        cdef int i
        if at + self._entry_bytes(size) > self.arena_used:
            raise InvariantError(f"the entry at {at} leaves the arena")
        for i in range(self.key_count):
            end = skip_key(end, self.kinds[i])
        if end != key + size:
            raise InvariantError(f"the key at {at} is {end - key} bytes of {size}")
        keys.length = 1
        keys.data[0] = key
        keys.sizes[0] = size
        keys.lead[0] = 0
        keys.lead_sizes[0] = 0
        if self.ordered:
            return 0
        self._find(&keys, False)
        if self.slots[keys.slots[0]] == 0 or keys.refs[0] != at >> 3:
            raise InvariantError(f"the key at {at} is not found, or twice in the table")
        return 0


cdef int raise_failure(int failed) except -1:
    if failed == NO_MEMORY:
        raise MemoryError("no memory for more groups")
    if failed == TOO_LARGE:
        raise OverflowError(f"a key of more than {KEY_BYTES_MAX} bytes, or more than {ARENA_BYTES_MAX} bytes of groups")
    return 0
