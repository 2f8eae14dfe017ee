#!/usr/bin/env bash
# Spark gives the sketch files of one machine, to the byte, though an executor and a worker die in their tasks and slow tasks
# run twice; and the store from them is the store from the pages. With the wheel: Spark gives the clusters of one machine,
# however many partitions there are, though a worker dies, and whatever many documents share.
#
#   tests/spark.sh PROGRAM [WHEEL]
set -euo pipefail
program=$(realpath "$1")
wheel=$(realpath -q "${2:-}" || true)
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

spark_stop
if [ ! -e "$wheel" ]; then
  echo "skipped: clusters by Spark, without a wheel of the Python module"
  exit 0
fi
spark_module "$wheel" "$work/python"
mkdir "$work/cluster"
spark_start "$work/cluster"

# Runs the job over a folder of sketches.
link() { # NAME SKETCHES PARTITIONS [ARGUMENT…]
  local name=$1 sketches=$2 partitions=$3 begun=$SECONDS
  shift 3
  spark_submit deploy/spark/link_job.py --sketches "file://$sketches" --out "file://$work/$name" --partitions "$partitions" "$@" \
    > "$work/$name.out" 2> "$work/$name.log" || fail "the job $name failed"
  echo "Spark: $name, $partitions partitions, $((SECONDS - begun)) s: $(tr '\n' ';' < "$work/$name.out")"
}

# Loads the links of a job, and compares the store and the table of clusters with the store of a plain backfill.
compare() { # NAME SKETCHES STORE [ARGUMENT…]
  local name=$1 sketches=$2 store=$3
  shift 3
  "$program" backfill --quiet --store "$work/$name.store" --from-sketches "$sketches" --links "$work/$name/links.parquet" "$@"
  "$program" verify --store "$work/$name.store" > /dev/null || fail "$name: verify finds faults"
  "$program" export clusters --store "$store" > "$work/$name.csv"
  cmp "$work/$name.csv" <("$program" export clusters --store "$work/$name.store") || fail "$name: other clusters"
  "$SPARK_PYTHON" - "$work/$name/clusters" "$work/$name.csv" <<'PYTHON' || fail "$name: the table has other clusters"
import csv, sys
import pyarrow.dataset as dataset

rows = dataset.dataset(sys.argv[1], format="parquet").to_table().to_pylist()
pages = [row for row in rows if row["kind"] == "page"]
time = "%Y-%m-%dT%H:%M:%SZ"
found = {
    (row["url"], row["fetched_at"].strftime(time), row["sweep"] or "", str(row["document"]), str(row["cluster"]))
    for row in pages
}
with open(sys.argv[2], newline="") as file:
    expected = {tuple(row.values()) for row in csv.DictReader(file)}
assert found == expected and len(pages) >= len(expected) > 0
order = [(row["source"], row["record"]) for row in rows]
sources = list(dict.fromkeys(source for source, _ in order))
assert order == sorted(order, key=lambda row: (sources.index(row[0]), row[1]))
PYTHON
}

# The processes below one.
below() { # PID
  local pid
  for pid in $(ps -o pid= --ppid "$1"); do
    echo "$pid"
    below "$pid"
  done
}

link one "$work/sketches" 1
compare one "$work/sketches" "$work/whole"
link sixty-four "$work/sketches" 64
compare sixty-four "$work/sketches" "$work/whole"

# A job that is killed between its stages, twice, and submitted again. What was whole is not computed again.
n_stages=0
for stage in numbers links-1; do
  link resumed "$work/sketches" 64 &
  job=$!
  until compgen -G "$work/resumed/work/*/$stage/_SUCCESS" > /dev/null; do
    kill -0 "$job" 2> /dev/null || fail "the job ended before it was killed"
    sleep 0.05
  done
  kill -9 "$job" $(below "$job")
  wait "$job" 2> /dev/null && fail "the killed job ended well"
  found=("$work"/resumed/work/*/*/_SUCCESS)
  [ "${#found[@]}" -gt "$n_stages" ] || fail "no stage is whole where there was none"
  n_stages=${#found[@]}
  [ ! -e "$work/resumed/links.parquet" ] || fail "the job was killed too late"
done
link resumed "$work/sketches" 64
grep -q "^$n_stages stages were there" "$work/resumed.out" || fail "the job began anew"
cmp "$work/sixty-four/links.parquet" "$work/resumed/links.parquet" || fail "other links after a killed job"
compare resumed "$work/sketches" "$work/whole"

# With shingles that become common in several rounds, and a worker that dies in a task of Python.
export LOOKALIKE__CLUSTER__COMMON_LIMIT=1
"$program" backfill --quiet --store "$work/common" "${inputs[@]}"
link seven "$work/sketches" 7 &
job=$!
until below "${SPARK_WORKERS[0]}" | xargs -r ps -o args= -p 2> /dev/null | grep -q pyspark.daemon; do
  kill -0 "$job" 2> /dev/null || fail "the job ended before the worker had a task"
  sleep 0.1
done
kill -9 "${SPARK_WORKERS[0]}" $(below "${SPARK_WORKERS[0]}")
wait "$job" || fail "the job failed"
grep -q 'Lost executor' "$work/seven.log" || fail "no executor was lost"
compare seven "$work/sketches" "$work/common"
! cmp -s "$work/one.csv" "$work/seven.csv" || fail "common shingles made no difference"
unset LOOKALIKE__CLUSTER__COMMON_LIMIT

# As in the paper: all shingles index, and the common ones count nowhere.
paper=(--config config/paper-1997.toml)
"$program" sketch --quiet "${paper[@]}" --parquet "$work/paper-sketches" "${inputs[@]}"
"$program" backfill --quiet "${paper[@]}" --store "$work/paper" "${inputs[@]}"
link paper-1997 "$work/paper-sketches" 7 "${paper[@]}"
compare paper-1997 "$work/paper-sketches" "$work/paper" "${paper[@]}"

# A shingle that very many documents share.
awk 'BEGIN {
  for (n = 1; n <= 50000; n++) {
    text = "this page is one of very many that begin alike"
    for (at = 1; at <= 6; at++) text = text " w" int(n / 2) "x" at
    printf "{\"url\":\"http://hot/%d\",\"fetched_at\":\"2026-01-01T00:00:00Z\",\"text\":\"%s y%d\"}\n", n, text, n % 2
  }
}' > "$work/hot.jsonl"
"$program" sketch --quiet --parquet "$work/hot-sketches" "$work/hot.jsonl"
"$program" backfill --quiet --store "$work/hot-whole" "$work/hot.jsonl"
link hot "$work/hot-sketches" 4
compare hot "$work/hot-sketches" "$work/hot-whole"

# Links of other sketches or another rule.
refused() { # WHY SKETCHES ARGUMENT…
  local why=$1 sketches=$2 told
  shift 2
  told=$("$program" backfill --quiet --store "$work/none" --from-sketches "$sketches" --links "$work/one/links.parquet" "$@" 2>&1) \
    && fail "links were taken: $why"
  [[ $told == *"$why"* ]] || fail "$told does not say: $why"
}
refused "between documents of other sketches" "$work/hot-sketches"
LOOKALIKE__CLUSTER__THRESHOLD=0.6 refused "by another rule" "$work/sketches"
echo "Spark: the clusters of one machine, with 1, 7 and 64 partitions, one worker and a job killed"
