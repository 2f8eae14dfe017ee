#!/bin/bash
# Kills a backfill at random moments, resumes it each time, and compares the store with that of an undisturbed backfill.
#
#     bench-data/kill_backfill.sh [KILLS [DOCUMENTS]]      # 50 and 1,000,000
#
# bench_paper generates the documents and checks every cluster of both stores. LOOKALIKE and BENCH_PAPER name programs that
# are built already. SEED determines the moments.
set -euo pipefail
cd "$(dirname "$0")/.."
kills=${1:-50} documents=${2:-1000000}
RANDOM=${SEED:-1}
if [ -z "${LOOKALIKE:-}" ] || [ -z "${BENCH_PAPER:-}" ]; then
    cargo build --release --bin lookalike --example bench_paper
fi
target=${CARGO_TARGET_DIR:-target}/release
lookalike=${LOOKALIKE:-$target/lookalike} bench=${BENCH_PAPER:-$target/examples/bench_paper}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

begin=$(date +%s%N)
"$bench" --documents "$documents" --folder "$folder/whole" --keep > "$folder/whole.log"
grep 'wrong cluster: 0$' "$folder/whole.log"
took=$((($(date +%s%N) - begin) / 1000000))

n=0
while [ "$n" -lt "$kills" ]; do
    "$bench" --documents "$documents" --folder "$folder/killed" --keep > "$folder/killed.log" 2>&1 &
    process=$!
    moment=$((RANDOM * took / 32768))
    sleep "$((moment / 1000)).$(printf '%03d' $((moment % 1000)))"
    if ! kill -9 "$process" 2> "$folder/gone"; then
        wait "$process"
        # It ended before the kill: start over.
        grep -q 'wrong cluster: 0$' "$folder/killed.log"
        rm -rf "$folder/killed"
        continue
    fi
    wait "$process" 2>> "$folder/gone" || true
    n=$((n + 1))
    # The kill came after the store was complete: start over.
    if [ -d "$folder/killed/store" ]; then rm -rf "$folder/killed"; fi
done
"$bench" --documents "$documents" --folder "$folder/killed" --keep > "$folder/killed.log"
grep 'wrong cluster: 0$' "$folder/killed.log"

for what in "export clusters" "export links" "stats --json" verify; do
    for world in whole killed; do
        # shellcheck disable=SC2086  # a command of two words
        "$lookalike" $what --store "$folder/$world/store" | sed -E 's/"[a-z_]*bytes[a-z_]*":[0-9]+//' > "$folder/$world.txt"
    done
    cmp "$folder/whole.txt" "$folder/killed.txt"
done
echo "killed $n times: the store of $documents documents is the same"
