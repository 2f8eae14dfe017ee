#!/usr/bin/env bash
# One Apache Kafka broker on loopback, without containers: for trying Lookalike out and for its integration tests.
set -euo pipefail

readonly kafka_version=4.2.0
readonly scala_version=2.13
readonly slf4j_version=1.7.36
readonly jars=${XDG_CACHE_HOME:-$HOME/.cache}/lookalike/kafka-$kafka_version
readonly start_seconds_max=60
readonly stop_seconds_max=60

usage() {
  cat <<HELP
kafka-local.sh: a real Apache Kafka $kafka_version on 127.0.0.1, one process, for trials and tests

  kafka-local.sh start  [--dir DIR] [--port PORT] [--secure] [KEY=VALUE...]
                                                    start the broker and print its address; does nothing if it runs.
                                                    KEY=VALUE are broker settings, such as log.retention.ms=60000,
                                                    taken at the first start
  kafka-local.sh stop   [--dir DIR]                 end it in good order; does nothing if it does not run
  kafka-local.sh kill   [--dir DIR]                 end it as a power cut would; the next start recovers
  kafka-local.sh status [--dir DIR]                 print its address, or say that it does not run (exit code 1)
  kafka-local.sh topic  [--dir DIR] NAME [PARTITIONS [KEY=VALUE...]]
                                                    make a topic, of one partition by default; KEY=VALUE are topic
                                                    settings, such as retention.ms=60000; does nothing if it is there
  kafka-local.sh produce [--dir DIR] TOPIC          send standard input, one record a line
  kafka-local.sh clean  [--dir DIR]                 stop it and delete all that it stored

  --dir DIR    the folder that holds the broker's data, log and process id; several folders are several brokers
               (default: $state_default)
  --port PORT  the port on 127.0.0.1; the next one is used too (default 19092). It is chosen at the first start and
               kept in the folder.
  --secure     at the first start: a second way in, two ports above, by TLS and with a password (SASL by PLAIN or
               SCRAM-SHA-256). The authority to trust is in DIR/secure/ca.pem, the user is "lookalike", the password in
               DIR/secure/password. Needs openssl.

The broker listens on loopback only, without passwords: it is not for production. It never makes topics by itself.
It is small: for Java's options, set KAFKA_HEAP_OPTS (here -Xmx512m) and KAFKA_JVM_PERFORMANCE_OPTS
(here -XX:+UseSerialGC), as for Kafka's own scripts.
Needed: Java 17 or newer and, for the first start, Maven, which fetches about 60 MB of jars into
  $jars
On Debian: apt-get install default-jre-headless maven

An example:
  kafka-local.sh start
  kafka-local.sh topic pages 2
  kafka-local.sh produce pages < pages.jsonl
HELP
}

readonly state_default=${XDG_STATE_HOME:-$HOME/.local/state}/lookalike/kafka

fail() {
  echo "kafka-local.sh: $*" >&2
  exit 1
}

need() { # COMMAND DEBIAN-PACKAGE
  command -v "$1" > /dev/null || fail "there is no $1; on Debian: apt-get install $2"
}

need_java() {
  need java default-jre-headless
  local version
  version=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
  [ "${version:-0}" -ge 17 ] || fail "Java ${version:-of an unknown version} is too old, Kafka $kafka_version needs 17 or newer"
}

# Maven knows what Kafka depends on, so a project that depends on Kafka is all it takes.
fetch_jars() {
  [ -e "$jars/complete" ] && return
  need mvn maven
  echo "fetching Apache Kafka $kafka_version into $jars" >&2
  mkdir -p "$jars"
  cat > "$jars/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>lookalike</groupId>
  <artifactId>kafka-for-trials</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_$scala_version</artifactId>
      <version>$kafka_version</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka-tools</artifactId>
      <version>$kafka_version</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>$slf4j_version</version>
    </dependency>
  </dependencies>
</project>
POM
  (cd "$jars" && mvn --quiet --batch-mode dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$jars/lib") >&2 || fail "Maven could not fetch Kafka; run it again"
  touch "$jars/complete"
}

run_java() {
  java -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$jars/lib/*" "$@"
}

# Checks that the process is the broker: its id may belong to another program by now.
running() {
  local pid
  [ -s "$dir/pid" ] || return 1
  pid=$(< "$dir/pid")
  kill -0 "$pid" 2> /dev/null || return 1
  # A process that ended and was not waited for has an empty command line.
  tr '\0' ' ' < "/proc/$pid/cmdline" 2> /dev/null | grep -qF -- "kafka.Kafka $dir/server.properties"
}

address() {
  echo "127.0.0.1:$(< "$dir/port")"
}

# Short sessions, so that a killed broker is taken back at once; one replica of everything, there is one broker.
write_properties() { # PORT [KEY=VALUE...]
  local listeners="PLAINTEXT://127.0.0.1:$1,CONTROLLER://127.0.0.1:$(($1 + 1))"
  [ -z "$secure" ] || listeners+=",SECURE://127.0.0.1:$(($1 + 2))"
  cat > "$dir/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:$(($1 + 1))
listeners=$listeners
advertised.listeners=$listeners
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs=$dir/data
auto.create.topics.enable=false
message.max.bytes=16777216
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=2000
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
PROPERTIES
  # The last setting of a key counts.
  [ $# -eq 1 ] || printf '%s\n' "${@:2}" >> "$dir/server.properties"
  [ -z "$secure" ] || write_secrets
}

# Each broker has its own; no secret is shared.
write_secrets() {
  need openssl openssl
  (
    umask 077
    mkdir -p "$dir/secure"
    openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 \
      -keyout "$dir/secure/key.pem" -out "$dir/secure/ca.pem" 2> /dev/null
    cat "$dir/secure/key.pem" "$dir/secure/ca.pem" > "$dir/secure/broker.pem"
    openssl rand -hex 16 > "$dir/secure/password"
    cat >> "$dir/server.properties" <<PROPERTIES
listener.name.secure.ssl.keystore.type=PEM
listener.name.secure.ssl.keystore.location=$dir/secure/broker.pem
listener.name.secure.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.secure.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.secure.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
  user_lookalike="$(< "$dir/secure/password")";
PROPERTIES
  )
}

format() { # PORT [KEY=VALUE...]
  [ -e "$dir/data/meta.properties" ] && return
  echo "$1" > "$dir/port"
  write_properties "$@"
  local cluster users=()
  cluster=$(run_java kafka.tools.StorageTool random-uuid)
  # A broker keeps these users itself. Who can see the password go by can come in by the other port without one.
  [ -z "$secure" ] || users=(--add-scram "SCRAM-SHA-256=[name=lookalike,password=$(< "$dir/secure/password")]")
  run_java kafka.tools.StorageTool format --standalone --cluster-id "$cluster" --config "$dir/server.properties" \
    "${users[@]}" > "$dir/format.log" 2>&1 || fail "the folder could not be prepared, see $dir/format.log"
}

answers() {
  (: > "/dev/tcp/127.0.0.1/$1") 2> /dev/null
}

start() { # [KEY=VALUE...]
  local setting
  for setting in "$@"; do
    [[ $setting == ?*=* ]] || fail "$setting is no broker setting, which is KEY=VALUE; see --help"
  done
  need_java
  mkdir -p "$dir"
  dir=$(cd "$dir" && pwd)
  if running; then
    address
    return
  fi
  fetch_jars
  format "$port" "$@"
  port=$(< "$dir/port")
  await_port
  # shellcheck disable=SC2086 # Each of the variables holds several words.
  nohup java ${KAFKA_HEAP_OPTS:--Xmx512m} ${KAFKA_JVM_PERFORMANCE_OPTS:--XX:+UseSerialGC} \
    -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$jars/lib/*" \
    kafka.Kafka "$dir/server.properties" > "$dir/kafka.log" 2>&1 < /dev/null &
  echo $! > "$dir/pid"
  await_start
  address
}

# A broker that was killed a moment ago may still hold its port while the system takes it apart.
await_port() {
  for _ in {1..25}; do
    answers "$port" || return 0
    sleep 0.2
  done
  fail "something else listens on 127.0.0.1:$port; choose another folder with --dir and a --port"
}

await_start() {
  local until=$((SECONDS + start_seconds_max))
  while [ "$SECONDS" -lt "$until" ]; do
    answers "$port" && return
    kill -0 "$(< "$dir/pid")" 2> /dev/null || break
    sleep 0.2
  done
  tail -n 5 "$dir/kafka.log" >&2
  fail "the broker did not start, see $dir/kafka.log"
}

end() { # SIGNAL
  if running; then
    local pid until=$((SECONDS + stop_seconds_max))
    pid=$(< "$dir/pid")
    kill "-$1" "$pid"
    while running; do
      [ "$SECONDS" -lt "$until" ] || fail "process $pid still runs after $stop_seconds_max s; try: kafka-local.sh kill --dir $dir"
      sleep 0.2
    done
  fi
  rm -f "$dir/pid"
}

need_running() {
  running || fail "no broker runs in $dir; start it with: kafka-local.sh start --dir $dir"
}

make_topic() { # NAME [PARTITIONS [KEY=VALUE...]]
  [ $# -ge 1 ] || fail "topic needs a name; see --help"
  need_running
  local name=$1 n_partitions=${2:-1} settings=() setting
  shift $(($# < 2 ? $# : 2))
  for setting in "$@"; do settings+=(--config "$setting"); done
  run_java org.apache.kafka.tools.TopicCommand --bootstrap-server "$(address)" --create --if-not-exists \
    --topic "$name" --partitions "$n_partitions" "${settings[@]}"
}

produce() { # TOPIC
  [ $# -eq 1 ] || fail "produce needs a topic; see --help"
  need_running
  run_java org.apache.kafka.tools.ConsoleProducer --bootstrap-server "$(address)" --topic "$1" \
    --command-property max.request.size=16777216 > /dev/null
}

clean() {
  end KILL
  # Only what start made: the folder may hold other things.
  rm -rf -- "${dir:?}/data" "${dir:?}/secure" "$dir/server.properties" "$dir/port" "$dir/kafka.log" "$dir/format.log"
  rmdir --ignore-fail-on-non-empty -- "$dir"
}

dir=$state_default
port=19092
secure=
words=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --dir | --port)
      [ $# -ge 2 ] || fail "$1 needs a value; see --help"
      [ "$1" = --dir ] && dir=$2 || port=$2
      shift 2
      ;;
    --secure)
      secure=yes
      shift
      ;;
    -*) fail "unknown option $1; see --help" ;;
    *)
      words+=("$1")
      shift
      ;;
  esac
done
[[ $port =~ ^[0-9]+$ && $port -ge 1024 && $port -lt 65535 ]] || fail "--port takes a number from 1024 to 65534"
[ ! -d "$dir" ] || dir=$(cd "$dir" && pwd)

case ${words[0]:-} in
  start) start "${words[@]:1}" ;;
  stop) end TERM ;;
  kill) end KILL ;;
  status)
    running || { echo "no broker runs in $dir"; exit 1; }
    address
    ;;
  topic) make_topic "${words[@]:1}" ;;
  produce) produce "${words[@]:1}" ;;
  clean) [ ! -d "$dir" ] || clean ;;
  '')
    usage >&2
    exit 2
    ;;
  *) fail "unknown command ${words[0]}; see --help" ;;
esac
