"""One module a stage, each with `run(size)`, which writes its results by `tests.bench.results`."""
