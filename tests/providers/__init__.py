"""A local HTTP server that speaks three model providers' dialects to the byte, scripted by tests.

Start with `server.ModelServer` (in the test's event loop), `thread.serve_in_thread` (beside a test
that has none) or `python -m tests.providers.server --port N` (beside other processes).
"""
