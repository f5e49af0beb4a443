# Kaizen in a handful of words. `make up` is all that a fresh machine needs.
PYTHON ?=
export PYTHON
python := .venv/bin/python
# So many processes at a time, each with services of its own; a file's tests stay together, and so
# do files that share a stack (tests/spread.py). In the order of collection: the slowest first.
processes ?= 2
spread := -n $(processes) --dist loadfile --no-loadscope-reorder
beside := $(python) -m kaizen.supervisor.throwaway

.PHONY: help up down demo check test tests lint format inventory lock venv

help:
	@echo "make up      start Kaizen here and stay with it; Ctrl-C stops everything"
	@echo "make down    stop a Kaizen that was started elsewhere"
	@echo "make demo    walk through the whole story against the running Kaizen"
	@echo "make check   the fast half of the tests: style, types, contracts, migrations, quick tests"
	@echo "make test    everything; its two halves are make lint and make tests"
	@echo "make inventory  write the page of our own tools anew"
	@echo "make format  put the code into its usual form"

venv:
	@scripts/make-venv

# exec: Ctrl-C and signals reach the supervisor itself.
up: venv
	@exec $(python) manage.py up

down: venv
	@exec $(python) manage.py up --stop

demo: venv
	@exec $(python) manage.py demo

inventory: venv
	$(beside) --settings $(python) manage.py tools inventory

format: venv
	$(python) -m ruff check --fix .
	$(python) -m ruff format .

lint: venv
	$(python) -m ruff check .
	$(python) -m ruff format --check .
	$(beside) --settings $(python) -m mypy .
	.venv/bin/lint-imports
	$(beside) --settings $(python) manage.py tools inventory --check
	$(beside) $(python) manage.py makemigrations --check --dry-run
	$(beside) --settings $(python) manage.py check --deploy --fail-level WARNING

check: lint
	$(python) -m pytest -q $(spread) -m "not workers and not browser and not sandbox"

test: lint tests

tests: venv
	$(python) -m pytest $(spread)

# The locks of what sandboxes run lie beside their code. Npm is the pinned one; no address is kept.
pins := apps/sandbox/pins

lock: venv
	.venv/bin/uv pip compile --universal --python-version 3.11 --no-header --quiet requirements.in -o requirements.txt
	sed -i '1i # Resolved from requirements.in by `make lock`: exact pins of everything, for Python 3.11-3.13.' requirements.txt
	for one in office node; do .venv/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --quiet $(pins)/$$one.in -o $(pins)/$$one.txt || exit 1; done
	bin=$$($(python) -m kaizen.runtimes --where)/node/bin && cd $(pins)/pi && PATH="$$bin:$$PATH" npm install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved --no-audit --no-fund
