#!/usr/bin/env bash
# Takes in the WARC files of a folder as a crawler finishes them, until SIGTERM:
#
#   follow.sh FOLDER [OPTION of lookalike run…]
#
# LOOKALIKE is the program (lookalike), SECONDS_BETWEEN how long it waits between two looks (10).
set -euo pipefail
program=${LOOKALIKE:-lookalike}
seconds=${SECONDS_BETWEEN:-10}
[ $# -ge 1 ] && [ -d "$1" ] || { echo "usage: follow.sh FOLDER [OPTION…]" >&2; exit 2; }
# A crawler that writes NAME.warc.gz.open gives a file this name when it is whole.
pattern=$1/*.warc.gz
shift

child=
stop=
trap 'stop=yes; [ -z "$child" ] || kill -TERM "$child" 2> /dev/null || true' TERM INT
# In the background, so that a signal does not wait for its end.
in_turn() {
  "$@" &
  child=$!
  local code=0
  wait "$child" || code=$?
  if [ -n "$stop" ]; then wait "$child" 2> /dev/null || true; fi
  child=
  return "$code"
}

while [ -z "$stop" ]; do
  if compgen -G "$pattern" > /dev/null; then
    code=0
    # What the store has of these files is skipped.
    in_turn "$program" run --quiet "$@" "$pattern" || code=$?
    # 3: a file cannot be read to its end, perhaps because it is being written; 130 and 143: stopped.
    case $code in 0 | 3 | 130 | 143) ;; *) exit "$code" ;; esac
  fi
  [ -n "$stop" ] || in_turn sleep "$seconds" || true
done
