# States as items of columns: docs/RUN.md.
from cython_ext.pack cimport Packed, Reader
from cython_ext.states cimport State

cdef enum:
    STATE_COLUMNS_MAX = 2

cdef enum Item:          # what lies in a column
    ITEM_VARINT = 0
    ITEM_TEXT = 1
    ITEM_DOUBLE = 2

# The columns of a state of `kind`: how many, and what each holds.
cdef int state_columns(int kind, int* items) noexcept nogil
cdef int skip_item(int item, Reader* column) noexcept nogil
# Both go on in each column of the state, one item each. 0, NO_MEMORY, CORRUPT. Unpacking needs an entry of zeros, and leaves
# blocks in it that the caller frees, also when it fails.
cdef int pack_state(const State* state, char* entry, Packed* columns) noexcept nogil
cdef int unpack_state(const State* state, Reader* columns, char* entry, size_t* heap) noexcept nogil
