#!/usr/bin/env bash
# The units under systemd itself: a small Debian in a container of systemd-nspawn installs the package, takes the sample in
# from Kafka and from files, serves it in the sandbox of its unit, and survives a kill and a restart.
#
#   tests/systemd.sh PROGRAM
#
# Skipped, with the reason, where the tools or the rights are missing.
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")/.."

skip() { echo "skipped: $*"; exit 0; }
fail() { echo "FAILED: $*" >&2; exit 1; }
say() { echo "systemd: $*"; }

[ "$(id -u)" -eq 0 ] || skip "it takes root"
for command in mmdebstrap:mmdebstrap systemd-nspawn:systemd-container java:default-jre-headless; do
  command -v "${command%:*}" > /dev/null || skip "there is no ${command%:*}: apt-get install ${command#*:}"
done
suite=$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME") || skip "this is no Debian"
unshare --mount --pid --fork --cgroup true 2> /dev/null || skip "namespaces are not allowed here"

work=$(mktemp -d)
container=
clean_up() {
  [ -z "$container" ] || { kill -9 "$container" && wait "$container"; } 2> /dev/null || true
  deploy/kafka-local.sh clean --dir "$work/broker"
  rm -rf "$work"
}
trap clean_up EXIT

say "making a Debian with systemd, and the package"
package=$(deploy/debian.sh --program "$program" --out "$work")
depends=$(dpkg-deb --field "$package" Depends | sed 's/ *([^)]*)//g; s/ //g')
root=$work/root
mmdebstrap --quiet --variant=apt --include="systemd,systemd-sysv,dbus,curl,$depends" "$suite" "$root" 2> "$work/log" \
  || skip "mmdebstrap could not make the root: $(tail -n 1 "$work/log")"
cp "$package" "$root/root/lookalike.deb"
cp bench-data/sweep-*.jsonl.zst "$root/srv"

# It shares the network with this machine, so that it reaches the broker on loopback.
port=21192
while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2> /dev/null; do port=$((port + 10)); done
broker=$(deploy/kafka-local.sh start --dir "$work/broker" --port "$port")
http=18480
while (exec 3<>"/dev/tcp/127.0.0.1/$http") 2> /dev/null; do http=$((http + 10)); done
cat > "$root/root/check" <<CHECK
broker=$broker
at=http://127.0.0.1:$http
CHECK
cat tests/systemd-inside.sh >> "$root/root/check"
cat > "$root/etc/systemd/system/check.service" <<UNIT
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/bash /root/check
ExecStopPost=/bin/sh -c 'echo "\$EXIT_STATUS" > /root/status; systemctl --no-block poweroff'
StandardOutput=file:/root/told
StandardError=file:/root/told
[Install]
WantedBy=default.target
UNIT
systemctl --root "$root" --quiet enable check.service
deploy/kafka-local.sh topic --dir "$work/broker" pages > /dev/null
zstd -dc bench-data/sweep-*.jsonl.zst | deploy/kafka-local.sh produce --dir "$work/broker" pages

say "starting it"
systemd-nspawn --quiet --register=no --keep-unit --directory "$root" --boot --console=pipe < /dev/null > "$work/console" 2>&1 &
container=$!
for _ in {1..600}; do
  kill -0 "$container" 2> /dev/null || break
  sleep 0.2
done
if kill -0 "$container" 2> /dev/null; then
  tail -n 20 "$work/console" "$root/root/told" >&2
  fail "it did not end within two minutes"
fi
wait "$container" || true
container=
[ -e "$root/root/told" ] || skip "systemd does not start in a container here: $(tail -n 1 "$work/console")"
[ "$(cat "$root/root/status" 2> /dev/null)" = 0 ] || { cat "$root/root/told" >&2; fail "the units do not work under systemd"; }
sed -n 's/^systemd: /&/p' "$root/root/told"
echo "systemd: both units ran under systemd $(sed -n 's/^version //p' "$root/root/told"), in their sandboxes"
