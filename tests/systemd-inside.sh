# Runs inside the container of tests/systemd.sh, which sets broker and at.
set -euo pipefail
fail() { echo "FAILED: $*"; curl -s "$at/v1/stats" || true; systemctl status --no-pager lookalike lookalike-serve || true; journalctl --no-pager -n 40 -u 'lookalike*' || true; exit 1; }
say() { echo "systemd: $*"; }
echo "version $(systemctl --version | sed -n '1s/systemd \([0-9]*\).*/\1/p')"

# Until a command succeeds.
await() {
  for _ in {1..100}; do
    "$@" > /dev/null 2>&1 && return
    sleep 0.2
  done
  fail "not within 20 s: $*"
}
answers() { curl -fs "$at$1" | grep -qF "$2"; }
pid_of() { systemctl show --property MainPID --value "$1"; }

DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends /root/lookalike.deb
systemctl is-enabled --quiet lookalike-serve || fail "lookalike-serve does not start with the machine"
! systemctl is-active --quiet lookalike || fail "lookalike runs, and nobody named a broker"
sed -i "s/127.0.0.1:9092/$broker/" /etc/lookalike/kafka.toml
sed -i "s|127.0.0.1:8080|${at#http://}|" /etc/lookalike/lookalike.toml

# Without a store, the service that answers waits for one.
systemctl start lookalike-serve
! systemctl is-active --quiet lookalike-serve || fail "lookalike-serve runs without a store"

lookalike topics create --config /etc/lookalike/kafka.toml
systemctl start lookalike
await test -e /var/lib/lookalike/store/CURRENT
[ "$(stat -c '%U %a' /var/lib/lookalike)" = 'lookalike 750' ] || fail "the store is not its user's alone"
has_all() { lookalike stats --json --config /etc/lookalike/lookalike.toml | grep -qF '"n_sightings":646'; }
await has_all
# It counts a store anew only once a minute, so it is asked when all is there.
systemctl start lookalike-serve
await answers /v1/stats '"n_sightings":646'
await answers '/?url=https://docs.npm.example/html/doc/cache.html' cli/npm-cache.html
say "646 pages from Kafka, answered"

for unit in lookalike lookalike-serve; do
  pid=$(pid_of "$unit")
  [ "$(stat -c %U "/proc/$pid")" = lookalike ] || fail "$unit runs as another user"
  grep -q '^CapEff:.0000000000000000$' "/proc/$pid/status" || fail "$unit has capabilities"
  grep -q '^NoNewPrivs:.1$' "/proc/$pid/status" || fail "$unit could get new privileges"
  grep -q '^Seccomp:.2$' "/proc/$pid/status" || fail "$unit may call everything of the kernel"
  # The root as the service sees it.
  awk '$5 == "/" { print $6 }' "/proc/$pid/mountinfo" | tail -n 1 | grep -q '^ro' || fail "$unit could write to the system"
  say "$unit: $(systemd-analyze security --no-pager "$unit" | grep -o 'exposure level.*: [0-9.]*')"
done

# A killed service starts again, and reads on.
old=$(pid_of lookalike)
kill -9 "$old"
started_anew() { [ "$(pid_of lookalike)" != "$old" ] && [ "$(pid_of lookalike)" != 0 ] && systemctl is-active --quiet lookalike; }
await started_anew
kill -9 "$(pid_of lookalike-serve)"
await answers /v1/stats '"n_sightings":646'
say "killed, and started again"

# A wrong configuration is for the operator: no restart.
cp /etc/lookalike/lookalike.toml /root/good.toml
echo 'no_such_key = 1' >> /etc/lookalike/lookalike.toml
systemctl restart lookalike || true
failed() { [ "$(systemctl show --property ActiveState --value lookalike)" = failed ]; }
await failed
[ "$(systemctl show --property ExecMainStatus --value lookalike)" = 2 ] || fail "it did not end with 2"
[ "$(systemctl show --property NRestarts --value lookalike)" = 0 ] || fail "it was started again with a wrong configuration"
cp /root/good.toml /etc/lookalike/lookalike.toml
systemctl reset-failed lookalike
systemctl start lookalike

# SIGTERM ends it in good order, and a removal stops it.
systemctl stop lookalike
[ "$(systemctl show --property Result --value lookalike)" = success ] || fail "it did not end in good order"
dpkg --purge lookalike
! systemctl is-active --quiet lookalike-serve || fail "a purge left the service running"
[ ! -e /var/lib/lookalike ] || fail "a purge left the store"
say "stopped, and purged"
