"""Cython_ext: compiled kernels over whole blocks; no policy, no I/O."""
