# Kaizen's commands. `make up` is the only one a newcomer needs; it wants Python 3.11 with venv and nothing else.
# Another interpreter: make up PYTHON=/path/to/python3.12   Another port: make up PORT=8001

PYTHON ?= python3
PORT ?=
BENCH_SIZE ?= 100000
BIN := .venv/bin
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --custom-compile-command "make lock"

.PHONY: help up demo doctor test lint format soak bench screenshots lock clean python product tools browser
.DEFAULT_GOAL := help

help: ## Show these targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 20

up: product ## Serve everything on this machine (Ctrl-C stops it, the data stays)
	@$(BIN)/python manage.py up $(if $(PORT),--port $(PORT))

demo: product ## Walk the main job from the terminal, against the running system
	@$(BIN)/python manage.py demo

doctor: product ## Name the missing piece when something does not work
	@$(BIN)/python manage.py doctor

test: browser ## Run all tests, from nothing to green
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile

lint: tools ## Style, types, import directions, missing migrations
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/python -m mypy
	@$(BIN)/lint-imports
	@$(BIN)/python manage.py makemigrations --check --dry-run

format: tools ## Let ruff mend what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

soak: browser ## Full rounds of the reliability scripts, with one fresh seed (long)
	@$(BIN)/python -m tests.soak

bench: tools ## Measure, beside what can be compared (long; BENCH_SIZE=1m, STAGE=vector)
	@BENCH_SIZE=$(BENCH_SIZE) $(BIN)/python -m tests.bench $(if $(STAGE),world $(STAGE) page)

screenshots: browser ## Take the documentation's screenshots anew
	@$(BIN)/python -m tests.browser.screenshots

lock: tools ## Pin the whole tree of requirements anew, with hashes
	@$(LOCK) requirements.txt -o requirements.lock
	@$(LOCK) -c requirements.lock requirements-dev.txt -o requirements-dev.lock
	@$(LOCK) -c requirements.lock agents/runtime/requirements.txt -o agents/runtime/requirements.lock

clean: ## Remove environments and caches; the data in .kaizen stays
	@rm -rf .venv .kaizen/runtime-venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache staticfiles
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "Removed environments and caches. The data is in .kaizen; delete that folder to start afresh."

python:
	@command -v $(PYTHON) >/dev/null || { echo "Kaizen needs Python 3.11 or newer and found no $(PYTHON). Debian, Ubuntu: apt-get install python3 python3-venv" >&2; exit 1; }

product: python
	@$(PYTHON) scripts/bootstrap.py

tools: python
	@$(PYTHON) scripts/bootstrap.py --dev

browser: python
	@$(PYTHON) scripts/bootstrap.py --dev --browser
