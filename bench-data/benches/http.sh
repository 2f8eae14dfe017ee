#!/usr/bin/env bash
# How fast `lookalike serve` answers: requests a second and latencies of url, lost and similar for each of a few numbers
# of clients, beside those of /healthz, which asks nothing of the store; and how many cores the server and the load
# program, wrk, had of the machine meanwhile. Needs wrk and jq (Debian).
#   bench-data/benches/http.sh STORE PAGES.jsonl.zst… [-- CLIENTS…]      a store and the pages that it was made of
#   bench-data/benches/http.sh --generate N FOLDER [-- CLIENTS…]         N generated pages; their store stays in FOLDER
# 17,700,000 pages make 10 million documents in 5 GB, in a quarter of an hour on two cores. 20,000 pages drawn from all
# of them are asked for.
set -euo pipefail
cd "$(dirname "$0")/../.."
arguments=() clients=(1 50)
while [ $# -gt 0 ] && [ "$1" != -- ]; do arguments+=("$1"); shift; done
[ $# -gt 1 ] && clients=("${@:2}")

. deploy/target-dir.sh
cargo build --release --locked --quiet --bin lookalike --example generate
lookalike=$CARGO_TARGET_DIR/release/lookalike generate=$CARGO_TARGET_DIR/release/examples/generate

# Makes FOLDER/store of N pages, and FOLDER/pages.jsonl of 20,000 of them.
make_store() {
  local n=$1 folder=$2 settings=(--profile tiny --sweeps 2 --same 0.25 --pages "$1") at
  mkdir -p "$folder"
  [ -e "$folder/pages.jsonl" ] && return
  "$generate" "${settings[@]}" | "$lookalike" run --store "$folder/store" --stdin-name generated >&2
  for at in $(seq 0 199); do
    "$generate" "${settings[@]}" --skip $((n / 200 * at)) | head -n 100
  done > "$folder/pages.part"
  mv "$folder/pages.part" "$folder/pages.jsonl"
}

if [ "${arguments[0]}" = --generate ]; then
  make_store "${arguments[@]:1}"
  store=${arguments[2]}/store files=("${arguments[2]}/pages.jsonl")
else
  store=${arguments[0]} files=("${arguments[@]:1}")
fi

work=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
"$lookalike" serve --store "$store" --listen 127.0.0.1:0 2>"$work/said" &
server=$!
until address=$(grep -so 'http://[0-9.:]*/' "$work/said"); do
  kill -0 "$server" || { cat "$work/said" >&2; exit 1; }
  sleep 0.1
done

for file in "${files[@]}"; do zstd -dcf --long=27 "$file"; done | shuf -n 20000 --random-source=<(yes) > "$work/pages"
jq -r 'select(.body // .text) | .url | @uri' < "$work/pages" > "$work/urls"
jq -rj '(.body // .text // empty) + "\u0000"' < "$work/pages" > "$work/bodies"
export WORK=$work

# Hundredths of a second of processor time that the server has had.
server_time() { awk '{print $14 + $15}' "/proc/$server/stat"; }

load() {
  local question=$1 n=$2 seconds=$3 before TIMEFORMAT='%U %S'
  before=$(server_time)
  { time QUESTION=$question wrk -t1 -c"$n" -d"${seconds}s" -s bench-data/benches/http.lua "$address" > "$work/out"; } \
    2> "$work/time"
  printf '%-8s %7s %s %11.2f %9.2f\n' "$question" "$n" "$(tail -n 1 "$work/out")" \
    "$(jq -n "($(server_time) - $before) / 100 / $seconds")" \
    "$(awk -v seconds="$seconds" '{print ($1 + $2) / seconds}' "$work/time")"
}

# Asks until every page that is asked for was asked for once: only then is what an answer needs in memory.
warm() {
  local seconds=8 n_asked=0 n_pages
  n_pages=$(wc -l < "$work/urls")
  while [ "$n_asked" -lt "$n_pages" ]; do
    load "$1" 50 "$seconds" > /dev/null
    n_asked=$(grep -oE '[0-9]+ requests in' "$work/out" | grep -oE '^[0-9]+')
    seconds=$((2 * seconds))
  done
}

for question in url lost similar; do warm "$question"; done
printf '%-8s %7s %12s %9s %9s %9s %8s %11s %9s\n' \
  question clients requests/s p50 p99 p99.9 errors 'serve cores' 'wrk cores'
for n in "${clients[@]}"; do
  for question in health url lost similar; do load "$question" "$n" 5; done
done
