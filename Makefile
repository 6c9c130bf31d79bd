# Needs python3 (3.11 or later) with venv. `make PYTHON=python3.12 ...` takes another one for .venv.
PYTHON ?= python3
CUDA ?= cuda13
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
SPECS := specs/*.yaml
unexport PYTHONDONTWRITEBYTECODE  # tests start many processes, which would compile every module again
# One of each family: a transpose, a permute, TMA, rows that are normalised, a softmax, a reduction down columns, a stencil, a product.
FEW := $(addprefix specs/, transpose_tile.yaml permute_sf.yaml copy_tma.yaml rmsnorm.yaml softmax_rows.yaml column_sum.yaml stencil.yaml gemm.yaml)

.PHONY: run specs test ptx slow check golden site gpu clean

# Builds one spec of each family into out/, proofs included, verifies it on the CPU, and explains one.
run: .venv/installed
	$(BIN)/tilegen build -o out $(FEW)
	$(BIN)/tilegen verify --device cpu $(FEW)
	$(BIN)/tilegen explain specs/permute_sf.yaml
	@echo
	@echo "$(words $(FEW)) of $(words $(wildcard $(SPECS))) specs were built, proved and verified on the CPU; out/ holds a .cu, .h and .json of each."
	@echo "Next: $(BIN)/tilegen init mine writes a spec of your own, and docs/tutorial.md says what to do with it."

# The same for every spec of specs/, in minutes.
specs: .venv/installed
	$(BIN)/tilegen build -o out $(SPECS)
	$(BIN)/tilegen verify --device cpu $(SPECS)

# A file's tests stay in one process: they share what one of them built.
test: .venv/installed
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

# Compiles every spec to PTX, whole or with planted faults, and runs that in NumPy: four minutes of two cores, 1 GB each.
# For one release of NVRTC: another one prints other PTX, which is as good, and faults may show in other ways.
ptx: .venv/installed-ptx
	$(BIN)/python -m pytest -m "slow or not slow" --numprocesses auto --dist worksteal tests/ptx

# All tests, with those that `make test` leaves out: every spec in every way, hundreds of drawn kernels. For 16 cores rather than 2.
slow: .venv/installed
	TILEGEN_TESTS=all $(BIN)/python -m pytest -m "slow or not slow" --numprocesses auto --dist loadfile

check: .venv/installed-check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Rewrites tests/golden, tilegen/viewing/examples.json and the generated parts of README.md and docs/: only of kernels whose proofs pass.
golden: .venv/installed
	UPDATE_GOLDEN=1 $(BIN)/python -m pytest -m "not gpu" tests/specs/test_golden.py tests/programs/test_build.py tests/viewing/test_linking.py tests/test_docs.py \
		tests/test_layout_docs.py tests/spec/test_schema.py tests/spec/test_bad_specs.py tests/pages tests/proofs/test_trips.py tests/oracles/test_layout_regret.py

# The pages of docs/ with a search, into out/site; any warning is an error.
site: .venv/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# On a machine with a GPU: all tests, then verifies, counts and times every spec; writes docs/results/. CUDA=cuda12 for an older driver.
gpu: .venv/installed-$(CUDA) slow
	$(BIN)/python -m pytest -m gpu
	$(BIN)/python benchmarks/gpu.py
	$(BIN)/python benchmarks/results_page.py

clean:
	rm -rf out .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(INSTALL) -e '.[test]'
	touch $@

# With one more extra of pyproject.toml: check, compile, ptx, docs, browser, cuda12 or cuda13.
.venv/installed-%: .venv/installed
	$(INSTALL) -e '.[test,$*]'
	touch $@
