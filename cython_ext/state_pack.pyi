# Kernels cimport it: there is nothing for Python.
