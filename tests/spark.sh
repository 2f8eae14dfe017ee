#!/usr/bin/env bash
# Spark gives the sketch files of one machine, to the byte, though an executor and a worker die in their tasks and slow tasks
# run twice; and the store from them is the store from the pages.
#
#   tests/spark.sh PROGRAM
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")/.."
. deploy/spark/cluster.sh
if ! spark_install; then
  echo "skipped: Spark cannot be installed here"
  exit 0
fi

work=$(mktemp -d)
trap 'spark_stop; rm -rf "$work"' EXIT
export LOOKALIKE__STORE__SEED=7777777777777777777777777777777777777777777777777777777777777777
fail() {
  grep -hE "ERROR|Error|Exception" "$work"/*.log | tail -n 20 >&2
  echo "FAILED: $*" >&2
  exit 1
}

inputs=("$PWD"/bench-data/sweep-*.jsonl.zst "$PWD"/bench-data/manual-cjk.jsonl.zst)
printf '%s\n' "${inputs[@]}" > "$work/inputs.txt"
for at in "${!inputs[@]}"; do
  "$program" sketch --quiet --parquet "$work/expected" --number "$((at + 1))/${#inputs[@]}" --name "${inputs[at]}" "${inputs[at]}"
done

# A program that tells when it begins, and is slow enough to be killed in its task.
cat > "$work/slow" <<SLOW
#!/bin/sh
echo \$\$ >> "$work/begun"
sleep 3
exec "$program" "\$@"
SLOW
chmod +x "$work/slow"
: > "$work/begun"

spark_start "$work"
spark_submit --conf spark.speculation=true --conf spark.speculation.multiplier=1.1 --conf spark.speculation.quantile=0.25 \
  --conf spark.executorEnv.LOOKALIKE__STORE__SEED=$LOOKALIKE__STORE__SEED \
  deploy/spark/sketch_job.py --inputs "$work/inputs.txt" --out "$work/sketches" --program "$work/slow" > "$work/job.log" 2>&1 &
job=$!
until [ -s "$work/begun" ]; do
  kill -0 "$job" 2> /dev/null || fail "the job ended before a task began"
  sleep 0.1
done
# The worker whose task began first, and its executor: the Python of the task is below both.
pid=$(head -n 1 "$work/begun")
family=()
until [[ " ${SPARK_WORKERS[*]} " == *" $pid "* ]]; do
  family+=("$pid")
  pid=$(ps -o ppid= -p "$pid" | tr -d ' ')
  [ "${pid:-1}" -gt 1 ] || fail "the task has no worker"
done
kill -9 "$pid" "${family[@]}"
wait "$job" || fail "the job failed"

n_begun=$(wc -l < "$work/begun")
[ "$n_begun" -gt "${#inputs[@]}" ] || fail "$n_begun tasks for ${#inputs[@]} inputs: no task was repeated"
for expected in "$work"/expected/*; do
  cmp "$expected" "$work/sketches/$(basename "$expected")" || fail "other bytes"
done

# What is there is not sketched again.
spark_submit deploy/spark/sketch_job.py --inputs "$work/inputs.txt" --out "$work/sketches" --program /bin/false \
  > "$work/again.log" 2>&1 || fail "finished inputs were sketched again"

"$program" backfill --quiet --store "$work/whole" "${inputs[@]}"
"$program" backfill --quiet --store "$work/loaded" --from-sketches "$work/sketches"
for what in clusters links; do
  cmp <("$program" export $what --store "$work/whole") <("$program" export $what --store "$work/loaded") || fail "other $what"
done
echo "Spark: ${#inputs[@]} inputs in $n_begun tasks, one worker killed: the same bytes, the same store"
