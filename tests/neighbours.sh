#!/usr/bin/env bash
# The examples in deploy/examples, with the programs that they are for: Scrapy, PostgreSQL, Apache Kafka; and a folder of WARC files.
#
#   tests/neighbours.sh PROGRAM
#
# Skipped, in whole or in part, with the reason, where one of those cannot be had.
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")/.."

skip() { echo "skipped: $*"; exit 0; }

readonly versions=("scrapy==2.19.0" "confluent-kafka==2.16.1" "psycopg[binary]==3.3.9")
python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || skip "$(python3 --version) is older than 3.10"
venv=${XDG_CACHE_HOME:-$HOME/.cache}/lookalike/neighbours-venv
if [ "$(cat "$venv/versions" 2> /dev/null)" != "${versions[*]}" ]; then
  if ! { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check "${versions[@]}"; }; then
    skip "${versions[*]} could not be installed; the messages above say why"
  fi
  echo "${versions[*]}" > "$venv/versions"
fi
python=$venv/bin/python

work=$(mktemp -d)
# PostgreSQL runs as another user.
chmod 755 "$work"
server=
clean_up() {
  [ -z "$server" ] || { kill -INT "$server" && wait "$server"; } || true
  deploy/kafka-local.sh clean --dir "$work/broker"
  rm -rf "$work"
}
trap clean_up EXIT

mkdir "$work/warc"
"$python" tests/neighbours/warc_folder.py "$program" "$work/warc"

command -v java > /dev/null || skip "Scrapy and PostgreSQL: there is no Java for Apache Kafka: apt-get install default-jre-headless"
port=20192
while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 10)); done
broker=$(deploy/kafka-local.sh start --dir "$work/broker" --port "$port")

mkdir "$work/scrapy"
"$python" tests/neighbours/scrapy_crawl.py "$program" "$broker" "$work/scrapy"

# Starts a server for this test alone, which only its socket leads to; sets database and server.
start_postgresql() {
  local bin as_user=() until=$((SECONDS + 30))
  bin=$(find /usr/lib/postgresql/*/bin -maxdepth 0 2> /dev/null | sort -V | tail -n 1)
  [ -x "$bin/initdb" ] || { echo "skipped: there is no PostgreSQL server: apt-get install postgresql"; return 1; }
  mkdir "$work/postgresql"
  # It refuses to run as root.
  if [ "$(id -u)" -eq 0 ]; then
    as_user=(setpriv --reuid=postgres --regid=postgres --clear-groups)
    chown postgres:postgres "$work/postgresql"
  fi
  (
    cd "$work/postgresql"
    "${as_user[@]}" "$bin/initdb" --pgdata=data --username=crawl --auth=trust --encoding=UTF8 --no-locale > init.log
  ) || { cat "$work/postgresql/init.log" >&2; exit 1; }
  (
    cd "$work/postgresql"
    exec "${as_user[@]}" "$bin/postgres" -D data -c listen_addresses= -c unix_socket_directories="$PWD" > server.log 2>&1
  ) &
  server=$!
  database="postgresql:///postgres?host=$work/postgresql&user=crawl"
  until "$python" -c 'import psycopg, sys; psycopg.connect(sys.argv[1])' "$database" 2> /dev/null; do
    ((SECONDS < until)) || { cat "$work/postgresql/server.log" >&2; exit 1; }
    sleep 0.2
  done
}

if start_postgresql; then
  mkdir "$work/state"
  "$python" tests/neighbours/postgresql_state.py "$program" "$broker" "$work/state" "$database" bench-data/sweep-*.jsonl.zst
fi
