# Commands of everyday. `just` lists them; CONTRIBUTING.md says when to use which.

# Builds are kept outside the checkout, RocksDB included, as the scripts in deploy/ and tests/ do.
prepare := "deploy/debian-packages.sh && . deploy/target-dir.sh"

_default:
    @just --list --unsorted

# the program, optimised
build:
    {{prepare}} && cargo build --release --locked

# the pure rooms and the documents, in under a minute
fast:
    . deploy/target-dir.sh && cargo test --locked --no-default-features --lib --test it

# everything, as CI runs it; some half an hour
test:
    tests/all.sh

# one module of the integration tests, RocksDB included: just it recovery
it module:
    {{prepare}} && cargo test --release --locked --test it {{module}}::

# format and lints
lint:
    {{prepare}} && cargo fmt --check && cargo clippy --release --locked --all-targets -- -D warnings

# licences, bans and sources of the dependencies
deny:
    tests/deny.sh

# the Python wheel, in a bare environment
python:
    tests/python.sh

# the Debian package; root in a container installs and purges it
debian:
    {{prepare}} && cargo build --release --locked && tests/debian.sh "$CARGO_TARGET_DIR/release/lookalike"

# what the README shows
demo:
    deploy/demo.sh

# writes the generated pages of docs/reference anew, then checks all documents
docs:
    {{prepare}} && UPDATE_DOCS=1 cargo test --release --locked --test it documents
    . deploy/target-dir.sh && RUSTDOCFLAGS="-D warnings" cargo doc --release --locked --no-deps

# pages to sketches, stage by stage; docs/benchmarks.md has the commands of all other figures
bench:
    . deploy/target-dir.sh && cargo bench --locked --no-default-features --bench page
