"""Whoever turns texts into vectors: on this machine, or a provider over HTTP."""
