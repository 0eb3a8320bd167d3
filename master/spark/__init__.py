"""Spark: the same jobs over old logs, results of jobs as tables. The only package that knows PySpark."""

from master.spark import kernels as kernels  # first: it decides what scans
