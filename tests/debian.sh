#!/usr/bin/env bash
# The Debian package: builds it, installs it, takes pages in, serves them as its unit does, upgrades, removes and purges it.
#
#   tests/debian.sh PROGRAM
#
# Root installs it where no systemd runs, as in a container; elsewhere with LOOKALIKE_TEST_INSTALL=1; never over a Lookalike that
# is there.
# Otherwise the test unpacks the package into a temporary folder and runs what is in there.
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")/.."

fail() { echo "FAILED: $*" >&2; exit 1; }
say() { echo "debian: $*"; }
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$*"; }; }

command -v dpkg-shlibdeps >/dev/null || { echo "skipped: there is no dpkg-shlibdeps"; exit 0; }

work=$(mktemp -d)
# Other users read the package and the sample from here.
chmod 755 "$work"
server=
installed=
clean_up() {
  [ -z "$server" ] || kill -9 "$server" 2>/dev/null || true
  [ -z "$installed" ] || dpkg --purge lookalike >/dev/null 2>&1 || echo "the package lookalike could not be purged" >&2
  rm -rf "$work"
}
trap clean_up EXIT
# With a trap, bash ends when the command that runs has ended: dpkg does not leave the package half there.
trap 'exit 130' INT
trap 'exit 143' TERM

say "building the package"
package=$(deploy/debian.sh --program "$program" --out "$work")
dpkg-deb --info "$package" >"$work/info"
grep -E '^ (Package|Version|Depends):' "$work/info"
grep -q '^ Depends: .*libc6 (>= ' "$work/info" || fail "the package does not depend on libc6"
dpkg-deb --extract "$package" "$work/root"
for file in etc/lookalike/{lookalike,kafka}.toml usr/bin/lookalike usr/share/man/man1/lookalike{,-serve}.1.gz \
  usr/share/bash-completion/completions/lookalike usr/share/zsh/vendor-completions/_lookalike \
  usr/share/fish/vendor_completions.d/lookalike.fish usr/share/lookalike/config/default.toml \
  usr/share/doc/lookalike/{README.md,copyright,changelog.gz,changelog.Debian.gz,docs/guide/index.md,config/default.toml}; do
  [ -s "$work/root/$file" ] || fail "$file is not in the package"
done
owners=$(dpkg-deb --contents "$package" | awk '{ print $2 }' | sort -u)
[ "$owners" = root/root ] || fail "files belong to $owners"
# The project has no mail host.
if command -v lintian >/dev/null; then
  lintian --fail-on error --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog "$package"
fi

say "verifying the units"
units=(lookalike lookalike-serve)
if command -v systemd-analyze >/dev/null; then
  for unit in "${units[@]}"; do
    sed "s|^ExecStart=/|ExecStart=$work/root/|" "$work/root/usr/lib/systemd/system/$unit.service" >"$work/$unit.service"
  done
  for unit in "${units[@]}"; do
    systemd-analyze verify --man=no "$work/$unit.service" 2>"$work/verified" || true
    if grep -F lookalike "$work/verified"; then fail "$unit.service"; fi
    systemd-analyze security --offline=yes --threshold=20 "$work/root/usr/lib/systemd/system/$unit.service" >/dev/null \
      || fail "$unit.service is open to more than it needs"
  done
else
  say "not verified: there is no systemd-analyze"
fi

may_install() {
  [ "$(id -u)" -eq 0 ] || return 1
  if [ -n "$(dpkg-query -W lookalike 2>/dev/null)" ] || getent passwd lookalike >/dev/null || [ -e /var/lib/lookalike ] \
    || [ -e /etc/lookalike ]; then
    return 1
  fi
  [ "${LOOKALIKE_TEST_INSTALL:-}" = 1 ] || [ ! -d /run/systemd/system ]
}

# What a package may leave behind, besides caches, logs and what dpkg itself keeps.
machine() {
  find /etc /usr /var -xdev \( -path /var/cache -o -path /var/log -o -path /var/tmp -o -path /var/lib/apt -o -path /var/lib/dpkg \
    -o -path '/etc/*-' -o -path /etc/.pwd.lock \) -prune -o -print | sort
  getent passwd
  getent group
}

if may_install; then
  say "installing it"
  machine >"$work/before"
  installed=yes
  root=
  DEBIAN_FRONTEND=noninteractive quietly \
    apt-get -o DPkg::Lock::Timeout=60 install -y --no-install-recommends "$package"
  dpkg --verify lookalike
  [ "$(stat -c '%U:%G %a' /var/lib/lookalike)" = "lookalike:lookalike 750" ] || fail "/var/lib/lookalike is not its user's alone"
  wanted=/etc/systemd/system/multi-user.target.wants
  [ -L $wanted/lookalike-serve.service ] || fail "lookalike-serve does not start with the machine"
  [ ! -e $wanted/lookalike.service ] || fail "lookalike starts with the machine, which has no Kafka"
else
  say "not installing it: this takes root, no systemd or LOOKALIKE_TEST_INSTALL=1, and no Lookalike on the machine"
  root=$work/root
  install -d "$root/var/lib/lookalike"
  export LOOKALIKE__STORE__PATH=$root/var/lib/lookalike/store
fi

setting() { sed -n "s/^$2=//p" "$root/usr/lib/systemd/system/$1.service"; } # UNIT KEY

# The command of a unit, in the folder where the package is.
command_of() { # UNIT
  read -ra words < <(setting "$1" ExecStart)
  words=("${words[@]/#\/usr\//$root/usr/}")
  words=("${words[@]/#\/etc\//$root/etc/}")
}

# As the user of the units, with nothing of this environment but the given variables.
as_user() { # [NAME=VALUE...] COMMAND...
  cd "$work"
  if [ -n "$installed" ]; then
    exec setpriv --reuid="$(setting lookalike-serve User)" --regid=lookalike --init-groups --no-new-privs env -i PATH="$PATH" "$@"
  fi
  exec env "$@"
}

cp bench-data/sweep-*.jsonl.zst "$work"
chmod 644 "$work"/sweep-*
lookalike=$root/usr/bin/lookalike
settings=(--config "$root/etc/lookalike/lookalike.toml")
store=$root/var/lib/lookalike/store

for unit in "${units[@]}"; do
  [ "$(setting "$unit" User)" = lookalike ] || fail "$unit.service has another user"
done
# There is no broker here: what `run` would read must be Kafka, and what it would write to, the store that is served.
command_of lookalike
[ "${words[1]}" = run ] || fail "lookalike.service does not run"
(as_user "${words[0]}" config validate "${words[@]:2}")
(as_user "${words[0]}" config show "${words[@]:2}") >"$work/shown"
for line in 'from = "kafka"' "path = \"$store\""; do
  grep -qF "$line" "$work/shown" || fail "lookalike.service does not have $line"
done

say "taking the sample in"
(as_user "$lookalike" run --quiet "${settings[@]}" "$work"/sweep-*.jsonl.zst)
[ -e "$(setting lookalike-serve ConditionPathExists | sed "s|^|$root|")" ] || fail "lookalike-serve waits for another store"

say "serving it"
command_of lookalike-serve
port=18080
while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 10)); done
at=http://127.0.0.1:$port
(as_user LOOKALIKE__HTTP__LISTEN=127.0.0.1:$port "${words[@]}") >"$work/serve.log" 2>&1 &
server=$!
for _ in {1..150}; do
  curl -fs "$at/readyz" >/dev/null && break
  kill -0 "$server" 2>/dev/null || { cat "$work/serve.log" >&2; fail "lookalike-serve ended"; }
  sleep 0.2
done
page='https://docs.npm.example/html/doc/cache.html'
answers() { # PATH TEXT
  curl -fs --compressed "$at$1" >"$work/answer" || fail "$1 does not answer"
  grep -qF "$2" "$work/answer" || fail "$1 does not say $2"
}
answers /healthz ''
answers /readyz '"ready":true'
answers /v1/stats '"n_sightings":646'
answers "/v1/lost?url=$page" cli/npm-cache.html
answers "/?url=$page" cli/npm-cache.html

say "stopping it"
kill -TERM "$server"
code=0
wait "$server" || code=$?
server=
[ "$code" -eq 0 ] || { cat "$work/serve.log" >&2; fail "lookalike-serve ended with $code after SIGTERM"; }

if [ -n "$installed" ]; then
  say "upgrading, removing and purging it"
  echo '# by the operator' >>/etc/lookalike/lookalike.toml
  quietly dpkg --install "$package"
  tail -n 1 /etc/lookalike/lookalike.toml | grep -qF 'by the operator' || fail "an upgrade overwrote the configuration"
  (as_user "$lookalike" stats --json "${settings[@]}") | grep -qF '"n_sightings":646' || fail "an upgrade lost the store"

  quietly dpkg --remove lookalike
  [ ! -e /usr/bin/lookalike ] || fail "a removal left the program"
  [ -e /var/lib/lookalike/store/CURRENT ] || fail "a removal took the store"
  [ -e /etc/lookalike/lookalike.toml ] || fail "a removal took the configuration"

  quietly dpkg --purge lookalike
  installed=
  machine >"$work/after"
  diff "$work/before" "$work/after" || fail "a purge left the machine other than it was"
  echo "the Debian package: installed, answered for 646 sightings, upgraded, purged without a trace"
else
  echo "the Debian package: unpacked, answered for 646 sightings"
fi
