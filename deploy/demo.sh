#!/usr/bin/env bash
# Builds lookalike, reads the three sweeps of bench-data/, and shows what it found. Needs no broker.
# The first build takes 10 to 25 minutes on two cores, half of it RocksDB, and reports its progress.
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/debian-packages.sh
command -v cargo >/dev/null || { echo "Rust is missing: install it with rustup, 1.90 or newer" >&2; exit 1; }
. deploy/target-dir.sh

# A build of ten silent minutes looks like a hang.
show_progress() {
  local progress=$CARGO_TARGET_DIR/compiler/progress
  rm -f "$progress"
  while sleep 15; do
    [ ! -e "$progress" ] || echo "   … RocksDB: $(wc -l <"$progress") of 29 groups of sources compiled"
  done
}
show_progress &
watcher=$!
trap 'kill "$watcher" 2>/dev/null || true' EXIT
cargo build --release --locked
kill "$watcher"

store=$(mktemp -d)
trap 'rm -rf "$store"' EXIT
lookalike() {
  printf '\n$ lookalike %s\n' "$*"
  "$CARGO_TARGET_DIR/release/lookalike" "$@" --store "$store"
}

echo "Three sweeps of two documentation sites, years apart; each one extends the store:"
for sweep in bench-data/sweep-*.jsonl.zst; do
  lookalike run "$sweep" 2>&1
done
printf '\nWhat is there now, as section 5 of the paper counts it:\n'
lookalike stats
printf '\nOne cluster: a page under four URLs in three sweeps.\n'
lookalike query cluster https://docs.npm.example/html/doc/cli/npm-pack.html
printf '\nA page that moved: it was seen in 2014, never again, and is here now:\n'
lookalike query lost https://docs.npm.example/html/doc/cache.html
