PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Idle OpenMP threads sleep instead of spinning, so that parallel test workers do not starve each other.
export OMP_WAIT_POLICY ?= PASSIVE

.PHONY: demo test check docs bench attack fuzz install browser clean

## demo: install, fit the embedded digits end to end, print the metrics, write demo/report.html
demo: install
	$(BIN)/tell demo --out demo

## test: install, then every check that CI runs; BROWSER=no installs no browser for the report's tests
test: check browser
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

## check: format, lint, types, import direction
check: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

## bench: the speed comparisons against peers, on an idle machine
bench: install
	$(BIN)/pip install -q -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/shallow.py
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/partial_products.py
	$(BIN)/python benchmarks/shallow_quality.py
	$(BIN)/python benchmarks/stream.py
	$(BIN)/python benchmarks/latency.py
	$(BIN)/python benchmarks/large_file.py
	$(BIN)/python benchmarks/drift.py
	$(BIN)/python benchmarks/online.py
	$(BIN)/python benchmarks/deep.py
	$(BIN)/python benchmarks/serve.py

## attack: 100,000 damaged files, 200 kills and a minute of eight writers; see tests/hostile
attack: install
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.hostile.attack --cases 108000 --out tests/hostile/summary.json
	OMP_NUM_THREADS=1 TELL_ATTACK_WRITERS=8 TELL_ATTACK_SECONDS=60 \
	  $(BIN)/python -m pytest tests/hostile/test_writers.py --timeout 1000
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.hostile.kills --kills 200 --out tests/hostile/kills.json

## fuzz: coverage-guided fuzzing of the parsers written here, in an environment of its own
fuzz: install
	$(PYTHON) -m venv --system-site-packages .venv-fuzz
	.venv-fuzz/bin/pip install -q atheris
	PYTHONPATH=src:$(shell $(BIN)/python -c "import site; print(site.getsitepackages()[0])") \
	  .venv-fuzz/bin/python tests/hostile/fuzz.py -max_total_time=600

## docs: build the site into site/; a broken link or a stale name is an error
docs: install
	$(BIN)/mkdocs build --strict --quiet
	@echo "wrote site/index.html; with search: $(BIN)/python -m http.server -d site"

# The report's tests drive a real browser; without one they are skipped with a reason.
ifeq ($(BROWSER),no)
browser:
	@echo "BROWSER=no: nothing is installed; without a browser its tests are skipped"
else
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || \
	command -v google-chrome >/dev/null || { \
	  echo "No chromium here: installing it with apt-get (to do without: make test BROWSER=no)"; \
	  { apt-get update -qq && apt-get install -y -qq chromium; } >/dev/null 2>&1; } || \
	  echo "It could not be installed: the browser tests will be skipped"
endif

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt -e '.[test]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) demo site
