#!/usr/bin/env bash
# Holds the dependencies to deny.toml: licences, bans, sources. Advisories need a database from elsewhere and are left out.
# The first run builds cargo-deny, some minutes, into a folder outside the checkout; where it cannot, it says so and passes.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly version=0.20.2
tools=${XDG_CACHE_HOME:-$HOME/.cache}/lookalike/tools
PATH="$tools/bin:$PATH"

if ! cargo deny --version >/dev/null 2>&1; then
  build=$(mktemp -d)
  trap 'rm -rf "$build"' EXIT
  echo "building cargo-deny $version into $tools" >&2
  if ! CARGO_TARGET_DIR=$build cargo install --quiet --locked --root "$tools" --version "$version" cargo-deny; then
    echo "skipped: cargo-deny $version could not be installed; the messages above say why" >&2
    exit 0
  fi
fi
# Everything that the lock file names, for any system: without it the check below would ask the registry.
cargo fetch --locked --quiet
cargo deny --offline check licenses bans sources
