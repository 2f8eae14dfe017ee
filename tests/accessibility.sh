#!/usr/bin/env bash
# The pages for people and the report, by the rules of axe-core in a real browser.
#
#   tests/accessibility.sh PROGRAM [STORE]      of the sample, or of a store that is there
#
# Skipped, with the reason, where there is no node, npm or chromium, or the npm packages cannot be installed.
set -euo pipefail
program=$(realpath "$1")
store=$(realpath -q "${2:-}" || true)
cd "$(dirname "$0")/.."

skip() { echo "skipped: $*"; exit 0; }
fail() { echo "FAILED: $*" >&2; exit 1; }

for command in node npm chromium; do
  command -v "$command" > /dev/null || skip "there is no $command; on Debian: apt-get install nodejs npm chromium"
done
readonly versions=("axe-core@4.14.1" "playwright-core@1.65.1")
modules=${XDG_CACHE_HOME:-$HOME/.cache}/lookalike/accessibility
if [ "$(cat "$modules/versions" 2> /dev/null)" != "${versions[*]}" ]; then
  mkdir -p "$modules"
  npm install --prefix "$modules" --silent --no-audit --no-fund --no-save "${versions[@]}" \
    || skip "${versions[*]} could not be installed; the messages above say why"
  echo "${versions[*]}" > "$modules/versions"
fi

work=$(mktemp -d)
server=
clean_up() {
  [ -z "$server" ] || { kill "$server" && wait "$server"; } || true
  rm -rf "$work"
}
trap clean_up EXIT

if [ -z "$store" ]; then
  store=$work/store
  "$program" run --quiet --store "$store" bench-data/sweep-*.jsonl.zst
  "$program" sweep close --quiet --store "$store" 3-2017-09-01
fi
"$program" report --quiet --store "$store" --out "$work/report.html"
# A page that has moved, and where to.
read -r from to < <("$program" export moves --store "$store" --columns url,to --json | jq -r 'select(.to) | "\(.url) \(.to)"') || true
[ -n "${to:-}" ] || fail "no page of the store has moved: close its last sweep"

port=18180
while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 10)); done
at=http://127.0.0.1:$port
"$program" serve --quiet --store "$store" --listen "127.0.0.1:$port" > "$work/serve.log" 2>&1 &
server=$!
for _ in {1..150}; do
  curl -fs "$at/readyz" > /dev/null && break
  kill -0 "$server" 2> /dev/null || { cat "$work/serve.log" >&2; fail "serve ended"; }
  sleep 0.2
done

a=$(jq -rn --arg url "$from" '$url | @uri') b=$(jq -rn --arg url "$to" '$url | @uri')
node tests/accessibility.mjs "$modules" "$(command -v chromium)" \
  "$at/" "$at/clusters" "$at/clusters?kind=near" "$at/?url=$a" "$at/?url=$b" "$at/?url=html" \
  "$at/?url=https%3A%2F%2Fnone.example%2F" "$at/compare" "$at/compare?a=$a&b=$b" "$at/explain" "$at/explain?a=$a&b=$b" \
  "$at/compare?a=$a&b=$b&inputs=true" "$at/content" "$at/content?of=$b&inputs=true" "$at/reuse" "$at/reuse?url=$b" "$at/explain?a=none&b=none" \
  "file://$work/report.html"
