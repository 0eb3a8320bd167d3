# States to values.
from libc.stdint cimport uint32_t
from cython_ext.states cimport State

cdef tuple finish_state(const State* state, char* base, const uint32_t* refs, Py_ssize_t groups, int how,
                        double parameter, int precision, int scale, object owner)
cdef bytes serialize_state(const State* state, char* entry)
