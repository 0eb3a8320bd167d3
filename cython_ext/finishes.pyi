# Nothing for Python: other kernels cimport it (finishes.pxd).
