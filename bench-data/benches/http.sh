#!/usr/bin/env bash
# How fast `lookalike serve` answers: requests a second and latencies of url, lost and similar, for each of a few
# numbers of clients. Needs wrk and jq (Debian). The URLs and pages asked for are drawn from the files at random.
#   bench-data/benches/http.sh STORE PAGES.jsonl.zst… [-- CLIENTS…]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
lookalike=${LOOKALIKE:-lookalike}
store=$1
shift
files=() clients=(1 50)
while [ $# -gt 0 ] && [ "$1" != -- ]; do files+=("$1"); shift; done
[ $# -gt 1 ] && clients=("${@:2}")

work=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
"$lookalike" serve --store "$store" --listen 127.0.0.1:0 2>"$work/said" &
server=$!
until address=$(grep -o 'http://[0-9.:]*' "$work/said"); do
  kill -0 "$server" || { cat "$work/said" >&2; exit 1; }
  sleep 0.1
done

# At most 20,000 pages: enough that no answer is asked for twice in a row.
for file in "${files[@]}"; do zstd -dcf --long=27 "$file"; done | shuf -n 20000 --random-source=<(yes) > "$work/pages"
jq -r 'select(.body // .text) | .url | @uri' < "$work/pages" > "$work/urls"
jq -rj '(.body // .text // empty) + "\u0000"' < "$work/pages" > "$work/bodies"

# Warm: every page that is asked for was read once.
export WORK=$work
for question in url lost similar; do
  QUESTION=$question wrk -t1 -c2 -d2s -s "$here/http.lua" "$address" > /dev/null
done
printf '%-8s %8s %12s %9s %9s %9s %8s\n' question clients requests/s p50 p99 p99.9 errors
for n in "${clients[@]}"; do
  for question in url lost similar; do
    QUESTION=$question wrk -t1 -c"$n" -d5s -s "$here/http.lua" "$address" > "$work/out"
    printf '%-8s %8s %s\n' "$question" "$n" "$(tail -1 "$work/out")"
  done
done
