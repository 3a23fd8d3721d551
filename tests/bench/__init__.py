"""Measurements: ratios taken in one run on one machine, written to docs/performance.md.

Not tests: they never fail. `python -m tests.bench` lists the stages.
"""
