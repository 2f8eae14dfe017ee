# Sourced by the scripts beside it and by tests/spark.sh: a Spark master with two workers on loopback.
#
#   spark_install            makes a virtual environment with PySpark, once; sets SPARK_PYTHON
#   spark_module WHEEL DIR   makes the Python module of a wheel known to drivers and executors; DIR holds it
#   spark_start DIR          starts the cluster with its logs in DIR; sets SPARK_URL and SPARK_WORKERS, the process ids
#   spark_submit ARGUMENT…   submits a job to it
#   spark_stop               ends it
readonly spark_versions=("pyspark==4.0.1" "pyarrow==21.0.0" "pandas==2.3.3")
readonly spark_start_seconds_max=180
# An executor of one core whose JVM and Python stay under 1 GiB together.
readonly spark_small=(
  --conf spark.executor.memory=512m
  --conf "spark.executor.extraJavaOptions=-XX:+UseSerialGC -XX:ReservedCodeCacheSize=64m"
  --conf spark.executorEnv.MALLOC_ARENA_MAX=2
)

spark_fail() {
  echo "spark: $*" >&2
  return 1
}

spark_install() {
  command -v java > /dev/null || spark_fail "there is no Java 17; on Debian: apt-get install default-jre-headless" || return
  local venv=${XDG_CACHE_HOME:-$HOME/.cache}/lookalike/spark-venv
  if ! "$venv/bin/python" -c 'import pyspark, pyarrow, pandas' 2> /dev/null; then
    python3 -m venv "$venv" || spark_fail "there is no python3 with venv; on Debian: apt-get install python3-venv" || return
    "$venv/bin/pip" install --quiet --disable-pip-version-check "${spark_versions[@]}" || return
  fi
  SPARK_PYTHON=$venv/bin/python
  SPARK_HOME=$("$SPARK_PYTHON" -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')
  export SPARK_HOME PYSPARK_PYTHON=$SPARK_PYTHON PYSPARK_DRIVER_PYTHON=$SPARK_PYTHON SPARK_LOCAL_IP=127.0.0.1
}

spark_module() { # WHEEL DIR
  "$SPARK_PYTHON" -m pip install --quiet --disable-pip-version-check --no-deps --target "$2" "$1" || return
  export PYTHONPATH=$2
}

# Waits until a log holds a text.
spark_wait() { # LOG TEXT
  local deadline=$((SECONDS + spark_start_seconds_max))
  until grep -q "$2" "$1"; do
    ((SECONDS < deadline)) || spark_fail "$1 does not say \"$2\"" || return
    sleep 0.2
  done
}

spark_start() { # DIR
  local at dir=$1
  "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.master.Master \
    --host 127.0.0.1 --port 0 --webui-port 0 > "$dir/master.log" 2>&1 &
  SPARK_PIDS=($!)
  spark_wait "$dir/master.log" 'I have been elected leader' || return
  SPARK_URL=$(grep -o 'spark://127.0.0.1:[0-9]*' "$dir/master.log" | head -n 1)
  SPARK_WORKERS=()
  for at in 1 2; do
    "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.worker.Worker --host 127.0.0.1 --port 0 --webui-port 0 \
      --cores 1 --memory 1g --work-dir "$dir/worker-$at" "$SPARK_URL" > "$dir/worker-$at.log" 2>&1 &
    SPARK_WORKERS+=($!)
  done
  SPARK_PIDS+=("${SPARK_WORKERS[@]}")
  for at in 1 2; do spark_wait "$dir/worker-$at.log" 'Successfully registered with master' || return; done
}

spark_submit() {
  "$SPARK_HOME/bin/spark-submit" --master "$SPARK_URL" "${spark_small[@]}" --conf spark.driver.host=127.0.0.1 \
    --conf spark.ui.enabled=false ${PYTHONPATH:+--conf "spark.executorEnv.PYTHONPATH=$PYTHONPATH"} "$@"
}

spark_stop() {
  local pid
  for pid in "${SPARK_PIDS[@]}"; do
    kill "$pid" 2> /dev/null || true
    wait "$pid" 2> /dev/null || true
  done
  SPARK_PIDS=()
}
