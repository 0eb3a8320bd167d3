"""Benchmarks: ours and a rival in the same run; see bench/harness.py."""
