#!/usr/bin/env bash
# The Python wheel: builds it, installs it into a bare environment, and runs its tests there.
#
#   tests/python.sh [DIR]      leaves the wheel in DIR
#
# Skipped, with the reason, where there is no Python 3.10 with venv or no package index.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() { echo "skipped: $*" >&2; exit 0; }
python=${PYTHON:-python3}
command -v "$python" >/dev/null || skip "there is no python3"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || skip "$("$python" --version) is older than 3.10"
"$python" -c 'import venv, ensurepip' 2>/dev/null || skip "$python has no venv: install python3-venv"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/bare"
"$work/bare/bin/pip" install --quiet --disable-pip-version-check pyarrow polars datasets pytest mypy \
  || skip "pip could not install what the tests need; the messages above say why"

cargo fmt --check -p lookalike-python
. deploy/target-dir.sh
read -ra flags <<<"${CARGO_FLAGS:-}"
cargo clippy --release --locked "${flags[@]}" -p lookalike-python -- -D warnings
dist=${1:-$work/dist}
deploy/wheel.sh "$dist"
ls "$dist"/lookalike-*-cp310-abi3-manylinux_2_*.whl

"$work/bare/bin/pip" install --quiet --disable-pip-version-check "$dist"/*.whl
"$work/bare/bin/python" -m pytest -q -p no:cacheprovider deploy/python/tests
