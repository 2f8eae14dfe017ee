#!/usr/bin/env bash
# Sketches the shipped sample on a Spark master with two workers on this machine, loads the sketches into a store, and asks it.
# With a wheel of the Python module (deploy/wheel.sh) Spark finds the clusters, too, and the store takes them.
#
#   deploy/spark/sample.sh [PROGRAM [WHEEL]]   PROGRAM is `lookalike`, built or installed (default: the one on PATH)
set -euo pipefail
cd "$(dirname "$0")/../.."
program=$(command -v "${1:-lookalike}") || {
  echo "there is no ${1:-lookalike}: build it (cargo build --release), and name its path" >&2
  exit 1
}
. deploy/spark/cluster.sh
spark_install

work=$(mktemp -d)
trap 'spark_stop; rm -rf "$work"' EXIT
printf '%s\n' "$PWD"/bench-data/sweep-*.jsonl.zst > "$work/inputs.txt"

spark_start "$work"
echo "Spark master at $SPARK_URL, two workers"
spark_submit deploy/spark/sketch_job.py --inputs "$work/inputs.txt" --out "file://$work/sketches" --program "$program" \
  2> "$work/job.log" || { tail -n 20 "$work/job.log" >&2; exit 1; }
links=()
if [ $# -gt 1 ]; then
  spark_module "$2" "$work/python"
  spark_submit deploy/spark/link_job.py --sketches "file://$work/sketches" --out "file://$work/clusters" --partitions 4 \
    2> "$work/job.log" || { tail -n 20 "$work/job.log" >&2; exit 1; }
  links=(--links "$work/clusters/links.parquet")
fi
"$program" backfill --from-sketches "$work/sketches" "${links[@]}" --store "$work/store"
"$program" stats --store "$work/store"
