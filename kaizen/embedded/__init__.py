"""The laptop default: real PostgreSQL, real Valkey and Kaizen's processes, from Python wheels.

Imports no Django app, so tests and tools use it before anything is configured.
"""
