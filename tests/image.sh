#!/usr/bin/env bash
# The container image: built without a registry, loaded, and run as its user on a read-only root: it takes the sample in,
# answers over HTTP, is healthy, and ends in good order.
#
#   tests/image.sh PROGRAM
#
# Skipped, with the reason, where the tools or the rights are missing.
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")/.."

skip() { echo "skipped: $*"; exit 0; }
fail() { echo "FAILED: $*" >&2; exit 1; }
say() { echo "image: $*"; }

[ "$(id -u)" -eq 0 ] || skip "it takes root"
for command in mmdebstrap buildah podman; do
  command -v "$command" > /dev/null || skip "there is no $command: apt-get install $command runc"
done

work=$(mktemp -d)
# crun refuses cgroups of both versions at once, which runc takes. In a container there may be no more to give than there is.
podman=(podman --root "$work/storage" --runroot "$work/run" --storage-driver vfs --cgroup-manager cgroupfs)
if command -v runc > /dev/null; then podman+=(--runtime runc); fi
# Without systemd, podman has no timer that would run the health check.
options=(--network host --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 --health-interval disable)
clean_up() {
  "${podman[@]}" rm --force --time 5 served > /dev/null 2>&1 || true
  rm -rf "$work"
}
trap clean_up EXIT

say "building it"
archive=$(deploy/image.sh --program "$program" --out "$work" 2> "$work/log") || {
  # The only thing that it fetches.
  grep -q 'mmdebstrap could not' "$work/log" && skip "$(tail -n 3 "$work/log" | tr '\n' ' ')"
  cat "$work/log" >&2
  fail "it was not built"
}
say "$(du -m "$archive" | cut -f 1) MB"
image=$("${podman[@]}" load --quiet --input "$archive" | sed 's/^Loaded image: //')
"${podman[@]}" image inspect "$image" > "$work/image.json"
for what in '.[0].Config.User == "10001:10001"' '.[0].Config.Volumes | has("/var/lib/lookalike")' \
  '.[0].Labels["org.opencontainers.image.title"] == "lookalike"' '.[0].Config.StopSignal == "SIGTERM"'; do
  jq -e "$what" "$work/image.json" > /dev/null || fail "not so of the image: $what"
done

if ! "${podman[@]}" run --rm "${options[@]}" "$image" --version > "$work/version" 2> "$work/log"; then
  skip "built and loaded; no container runs here: $(grep -v 'healthcheck' "$work/log" | tail -n 1)"
fi
grep -q '^lookalike ' "$work/version" || fail "another program: $(< "$work/version")"

hardened=(--cap-drop all --security-opt no-new-privileges --read-only --tmpfs /tmp)
say "reading its manual and completions"
# shellcheck disable=SC2016
"${podman[@]}" run --rm "${options[@]}" "${hardened[@]}" --entrypoint sh "$image" -euc '
  lookalike man /tmp/man > /dev/null
  test -s /tmp/man/lookalike-restore.1
  for page in /tmp/man/*; do gzip -dc "/usr/share/man/man1/${page##*/}.gz" | cmp - "$page"; done
  lookalike completions bash | cmp - /usr/share/bash-completion/completions/lookalike
  lookalike completions zsh | cmp - /usr/share/zsh/vendor-completions/_lookalike
  lookalike completions fish | cmp - /usr/share/fish/vendor_completions.d/lookalike.fish
' 2> "$work/log" || { cat "$work/log" >&2; fail "it lacks manual pages or completions, or has others than the program's"; }

say "taking the sample in"
"${podman[@]}" volume create store > /dev/null
"${podman[@]}" run --rm "${options[@]}" "${hardened[@]}" --volume store:/var/lib/lookalike --volume "$PWD/bench-data:/data:ro" \
  --entrypoint sh "$image" -c 'test "$(id -u)" = 10001 && exec lookalike run --quiet /data/sweep-*.jsonl.zst' 2> "$work/log" \
  || { cat "$work/log" >&2; fail "it took nothing in"; }

say "serving it"
# The port of the health check; where it is taken, another one serves and the check must say that it is not healthy.
port=8080
while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2> /dev/null; do port=$((port + 10)); done
"${podman[@]}" run --detach --name served "${options[@]}" "${hardened[@]}" --volume store:/var/lib/lookalike \
  --env "LOOKALIKE__HTTP__LISTEN=127.0.0.1:$port" "$image" serve > /dev/null 2> "$work/log" || { cat "$work/log" >&2; fail "serve"; }
at=http://127.0.0.1:$port
for _ in {1..150}; do
  curl -fs "$at/readyz" > /dev/null && break
  [ "$("${podman[@]}" inspect --format '{{.State.Running}}' served)" = true ] || { "${podman[@]}" logs served >&2; fail "serve ended"; }
  sleep 0.2
done
curl -fs "$at/v1/stats" | grep -qF '"n_sightings":646' || fail "the answer is not of the sample"
curl -fs "$at/?url=https://docs.npm.example/html/doc/cache.html" | grep -qF cli/npm-cache.html || fail "the page does not answer"
if [ "$port" -eq 8080 ]; then
  "${podman[@]}" healthcheck run served || fail "it says that it is not healthy"
fi

say "stopping it"
"${podman[@]}" stop --time 20 served > /dev/null 2>&1
code=$("${podman[@]}" inspect --format '{{.State.ExitCode}}' served)
[ "$code" -eq 0 ] || fail "serve ended with $code after SIGTERM"
if "${podman[@]}" healthcheck run served > /dev/null 2>&1; then fail "it is healthy though it does not run"; fi
echo "the container image: built, loaded, answered for 646 sightings on a read-only root, healthy"
