# Two commands do everything on a fresh machine (Python >= 3.11, pip, internet):
#   make run    the jobs decided for the embedded model
#   make test   the tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNS := $(VENV)/.runs
READY := $(VENV)/.ready
PIP := $(PYTHON) scripts/install $(BIN)/python --constraint constraints.txt
CLAUDE := .cache/claude/node_modules/.bin/claude
PYTEST := $(BIN)/python -m pytest
# Compiled once, not anew in every worker and every command that a test starts.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup run test test-slow test-real check dist release-check bench mutants docs format clean

setup: $(READY)

$(RUNS): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("clawgauge needs Python 3.11 or newer; this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@echo "Once: clawgauge and what it needs, into $(VENV); then a model of 93 MB, into your cache"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --editable '.[embedded]'
	@$(BIN)/clawgauge doctor --get-embedded
	@touch $(RUNS)

$(READY): $(RUNS)
	@echo "Once: what tests and checks need, into $(VENV)"
	@$(PIP) --editable '.[embedded,dev]'
	@touch $(READY)

run: $(RUNS)
	@$(BIN)/clawgauge run -t embedded:smollm2-135m
	@printf '%s\n' "" "Next: look for your own models, and ask them until it is decided what they do:" \
	"  $(BIN)/clawgauge init" "  $(BIN)/clawgauge run" \
	"smollm2-135m is for trying the tool out. A model of your own is named like this:" \
	"  $(BIN)/clawgauge run -t ollama_openai:llama3.2:3b" \
	"  $(BIN)/clawgauge run -t embedded:FILE.gguf" >&2

# Six at once on two cores: much of the tests' time is waiting for deadlines and processes. They must pass on a machine
# that has never run them and is busy. To see that they do (the loops end with the shell that started them):
#   git clone -q . /tmp/fresh && cd /tmp/fresh && export HOME=$(mktemp -d)
#   bash -c 'for n in 1 2 3 4; do while kill -0 $$; do :; done & done 2>/dev/null; make test'
# and on one core: taskset -c 0 make test; crowded: .venv/bin/python -m pytest -n 8.
test: setup
	$(PYTEST) -n 6 --dist worksteal

test-slow: setup
	$(PYTEST) -m slow -n 2 --dist worksteal

# Needs npm and apt; says what could not be had. All but Chromium goes into this folder alone. ALL=1 also runs what takes
# long and is much like another test.
test-real: setup
	@scripts/get-claude || echo "test-real: the claude CLI could not be installed; its tests are skipped and say so"
	@scripts/get-chromium || echo "test-real: Chromium could not be found or installed; its tests are skipped and say so"
	@scripts/get-axe || echo "test-real: axe-core could not be installed; its tests are skipped and say so"
	@scripts/get-openclaw || echo "test-real: OpenClaw could not be installed; its tests are skipped and say so"
	@scripts/get-agents || echo "test-real: codex and goose could not be installed; their tests are skipped and say so"
	@PYTHON=$(PYTHON) scripts/get-litellm || echo "test-real: LiteLLM could not be installed; its test is skipped and says so"
	@PYTHON=$(PYTHON) scripts/get-ray || echo "test-real: Ray could not be installed; the test of a cluster is skipped and says so"
	@$(PIP) pyarrow || echo "test-real: pyarrow could not be installed; its test is skipped and says so"
	$(PYTEST) -m $(if $(ALL),real,"real and not rest")

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# A wheel and a source package as an index takes them, the wheel in a clean environment, the pages as a site; then the
# wheel as a stranger installs it, and a first run without a network. PYTHONS="python3.11 python3.13" tries several.
dist:
	PYTHON=$(PYTHON) scripts/check-dist

# The same for every Python that is found.
release-check:
	PYTHON=$(PYTHON) PYTHONS="$${PYTHONS:-$$($(PYTHON) scripts/find-pythons)}" scripts/check-dist

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Ratios side by side with a bare client, on this machine, into bench/RESULTS.md; see docs/performance.md.
bench: setup
	$(BIN)/python -m bench

# Which small breaks of the code no unit test notices. MUTANTS=200 and PACKAGES="stats compare" choose.
mutants: setup
	nice $(BIN)/python scripts/mutants.py

docs: setup
	$(BIN)/python scripts/generate_docs.py

clean:
	rm -rf $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache
