#!/usr/bin/env bash
# Makes the golden store of the format at hand: tests/golden/make-store.sh PROGRAM, such as target/release/lookalike.
# Only while that format is not released: afterwards its golden store never changes.
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
LOOKALIKE__STORE__SEED=$(printf '%064x' 7)
export LOOKALIKE__STORE__SEED LOOKALIKE__SKETCH__INDEX_MODULUS=25 LOOKALIKE__SKETCH__CONFIRMATION=false
export LOOKALIKE__CLUSTER__COMMON_LIMIT=5 LOOKALIKE__CLUSTER__COMPARISONS_MAX=0
run() { "$program" run -q --store "$folder/store" --stdin-name golden --events "$folder/events.jsonl" -; }
# The first pages' postings go into files, those of the last stay pending.
head -n 16 pages.jsonl | LOOKALIKE__STORE__POSTING_BUFFER_MIB=0 LOOKALIKE__PIPELINE__BATCH_RECORDS_MAX=4 run
run <pages.jsonl
"$program" export clusters --store "$folder/store" >store-2.csv
cp "$folder/events.jsonl" .
rm -f "$folder"/store/LOG* "$folder/store/LOCK"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$folder" -cf - store | gzip -9n >store-2.tar.gz
ls -l store-2.tar.gz
