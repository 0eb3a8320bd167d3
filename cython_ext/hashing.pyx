"""Hashes of bytes, for tests and for Python code that must agree with the kernels; the kernels inline them from
`hashing.pxd`. docs/AGGREGATES.md defines both exactly: they travel, so they never change."""


def key_hash(bytes data not None, uint64_t seed=0):
    """The 64-bit hash of an encoded key. O(bytes)."""
    return hash_bytes(seed, 0, 0, data, len(data))


def key_hash_split(bytes data not None, uint64_t seed=0):
    """`key_hash(data, seed)` by way of the kernel's path for a first byte that lies apart; `data` is not empty."""
    if not data:
        raise ValueError("there is no first byte to take apart")
    cdef const char* text = data
    return hash_bytes(seed, <uint8_t>text[0], 1, text + 1, len(data) - 1)


def murmur3(bytes data not None, uint64_t seed=0):
    """MurmurHash3_x64_128 as two 64-bit words; both halves of its state start from the 64-bit `seed`. O(bytes)."""
    cdef uint64_t first, second
    murmur3_128(data, len(data), seed, &first, &second)
    return first, second
