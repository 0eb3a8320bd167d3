"""The C allocator: giving back to the system what is free."""

cdef extern from *:
    """
    #if defined(__GLIBC__) || defined(__linux__)
    #include <malloc.h>
    #endif
    static int elfstream_trim(void) {
    #ifdef __GLIBC__
        return malloc_trim(1 << 20);
    #else
        return 0;
    #endif
    }
    """
    int elfstream_trim() nogil


def trim_memory():
    """Returns free pages inside of the heap to the system; whether there were any. Does nothing where the C library cannot.

    Blocks of all sizes come and go under a memory cap, and pages of small gaps between them would count as ours. O(heap).
    """
    cdef int found
    with nogil:
        found = elfstream_trim()
    return found != 0
