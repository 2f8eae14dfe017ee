#!/usr/bin/env bash
# Every test: format, lints, documentation, dependencies, unit and integration tests, a real Kafka, and the README's main command.
# Installs what is missing where it may. The first run builds RocksDB once, some ten minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s (minute %d)\n' "$*" $((SECONDS / 60)); }

step packages
deploy/debian-packages.sh --tests
rustup component list --installed 2>/dev/null | grep -q clippy || rustup component add clippy rustfmt
. deploy/target-dir.sh

step format
cargo fmt --check

step "the pure rooms alone, with overflow checks and debug assertions"
cargo test --locked --no-default-features --lib --test it

# One optimised profile serves all that needs RocksDB.
step lints
cargo clippy --release --locked --all-targets -- -D warnings

step documentation
RUSTDOCFLAGS="-D warnings" cargo doc --release --locked --no-deps --quiet

step "licences, bans and sources of the dependencies"
tests/deny.sh

step "a broker for the Kafka tests"
broker=$(mktemp -d)
trap 'deploy/kafka-local.sh clean --dir "$broker"; rm -rf "$broker"' EXIT
port=19092
while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 10)); done
LOOKALIKE_TEST_KAFKA=$(deploy/kafka-local.sh start --dir "$broker" --port "$port" --secure)
LOOKALIKE_TEST_KAFKA_SECRETS=$broker/secure
export LOOKALIKE_TEST_KAFKA LOOKALIKE_TEST_KAFKA_SECRETS

# With the points at which tests/failpoints.rs kills the program, so that nothing is built once more for it. They do nothing where
# no test names them. All that comes after the tests has the program without them.
step "tests, with kills at every step of a batch"
cargo test --release --locked --features failpoints

step "the main command, and what it must show"
deploy/demo.sh | tee "$broker/shown"
for line in \
  "371 URLs in 3 sweeps: 646 sightings of pages" \
  "https://docs.npm.example/html/doc/pack.html" \
  "now at     https://docs.npm.example/html/doc/cli/npm-cache.html"; do
  grep -qF "$line" "$broker/shown" || { echo "the demonstration did not show: $line" >&2; exit 1; }
done

step "the Python wheel"
tests/python.sh "$broker/wheel"

step "sketches and clusters by Spark"
tests/spark.sh "$CARGO_TARGET_DIR/release/lookalike" "$broker"/wheel/*.whl

step "the pages for people, by the rules of axe-core"
tests/accessibility.sh "$CARGO_TARGET_DIR/release/lookalike"

step "the manifests for Kubernetes and Docker Compose"
tests/deployment.sh "$CARGO_TARGET_DIR/release/lookalike"

step "the alarms"
tests/alarms.sh "$CARGO_TARGET_DIR/release/lookalike"

step "the examples with Scrapy and PostgreSQL"
tests/neighbours.sh "$CARGO_TARGET_DIR/release/lookalike"
tests/proxy.sh "$CARGO_TARGET_DIR/release/lookalike"

step "the Debian package"
tests/debian.sh "$CARGO_TARGET_DIR/release/lookalike"

step "the archive and its installer"
tests/install.sh "$CARGO_TARGET_DIR/release/lookalike"

step "the container image"
tests/image.sh "$CARGO_TARGET_DIR/release/lookalike"

step "the units under systemd"
tests/systemd.sh "$CARGO_TARGET_DIR/release/lookalike"

printf '\nall tests passed\n'
