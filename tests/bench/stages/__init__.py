"""One module a stage, with `run`; results go through `tests.bench.results`."""
