#!/usr/bin/env bash
# The alarms in deploy/compose/alerts.yaml: each fires in a case of tests/alarms.yaml, and none on an ordinary day.
#
#   tests/alarms.sh PROGRAM
#
# Then a real Prometheus raises those that can be provoked within two minutes, over processes of PROGRAM. Skipped, with the
# reason, where there is no promtool or no prometheus.
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: tests/alarms.sh PROGRAM" >&2; exit 2; }
program=$(realpath "$1")
cd "$(dirname "$0")/.."

fail() { echo "FAILED: $*" >&2; exit 1; }

command -v promtool > /dev/null || { echo "skipped: there is no promtool: apt-get install --no-install-recommends prometheus"; exit 0; }

readonly rules=deploy/compose/alerts.yaml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tests" "$work/$(dirname "$rules")"
cp tests/alarms.yaml "$work/tests"

promtool check rules "$rules"
promtool test rules tests/alarms.yaml

# A rule that never fires must be noticed: each one in turn gets a name that no case expects.
for alarm in $(sed -n 's/.*- alert: //p' "$rules"); do
  sed "s/- alert: $alarm$/- alert: Silent/" "$rules" > "$work/$rules"
  if promtool test rules "$work/tests/alarms.yaml" > /dev/null 2>&1; then fail "no case fires $alarm"; fi
done
echo "the alarms: each fires in its case, none on an ordinary day"

if command -v prometheus > /dev/null; then
  python3 tests/alarms_fired.py "$program" "$rules"
else
  echo "skipped: there is no prometheus, which raises alarms over real processes: apt-get install --no-install-recommends prometheus"
fi
