#!/usr/bin/env bash
# Builds a container image from Debian's packages and that of the program, with no registry and no daemon:
# deploy/image.sh [--package FILE | --program FILE] [--out DIR]
#
# Without either it builds the program first. The image goes to DIR (dist) as an archive that podman, docker and skopeo load,
# and its path to standard output. It takes root, mmdebstrap and buildah, and fetches some 60 MB of Debian's packages.
set -euo pipefail

fail() { echo "image.sh: $*" >&2; exit 1; }

package=
program=()
out=
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || fail "$1 is no option, or lacks its value"
  case $1 in
    --package) package=$(realpath "$2") ;;
    --program) program=(--program "$(realpath "$2")") ;;
    --out) out=$(realpath -m "$2") ;;
    *) fail "unknown option $1" ;;
  esac
  shift 2
done
cd "$(dirname "$0")/.."
out=${out:-$PWD/dist}
for command in mmdebstrap buildah; do
  command -v "$command" > /dev/null || fail "there is no $command: apt-get install $command"
done
[ "$(id -u)" -eq 0 ] || fail "it takes root: sudo $0"
suite=$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME") \
  || fail "this is no Debian, so what runs here does not fit an image of Debian"

work=$(mktemp -d)
storage=(--root "$work/storage" --runroot "$work/run" --storage-driver vfs)
trap 'rm -rf "$work"' EXIT
[ -n "$package" ] || package=$(deploy/debian.sh "${program[@]}" --out "$work")
version=$(dpkg-deb --field "$package" Version)
# One package makes the same image, but for what Debian has corrected since.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2> /dev/null || date +%s)}
export SOURCE_DATE_EPOCH

# The names of the packages that it depends on, without versions.
depends=$(dpkg-deb --field "$package" Depends | sed 's/ *([^)]*)//g; s/ //g')
# The user has the number that deploy/Dockerfile gives it: Kubernetes wants a number, and volumes keep it.
# shellcheck disable=SC2016
mmdebstrap --quiet --variant=essential --include="ca-certificates,$depends" \
  --customize-hook="copy-in '$package' /tmp" \
  --customize-hook='chroot "$1" sh -c "dpkg --install /tmp/*.deb && rm /tmp/*.deb"' \
  --customize-hook='chroot "$1" sh -c "usermod --uid 10001 lookalike && groupmod --gid 10001 lookalike"' \
  --customize-hook='chroot "$1" chown lookalike:lookalike /var/lib/lookalike' \
  "$suite" "$work/root.tar" >&2 || fail "mmdebstrap could not make the root"

# Docker's format keeps the health check, for which OCI's has no place.
image=$(buildah "${storage[@]}" from --format docker scratch)
buildah "${storage[@]}" add --quiet "$image" "$work/root.tar" / > /dev/null
buildah "${storage[@]}" config \
  --user 10001:10001 --workingdir /var/lib/lookalike --volume /var/lib/lookalike --port 8080 \
  --env LOOKALIKE__STORE__PATH=/var/lib/lookalike/store --env LOOKALIKE__HTTP__LISTEN=0.0.0.0:8080 \
  --entrypoint '["lookalike"]' --cmd 'run --config /etc/lookalike/kafka.toml --http-listen 0.0.0.0:8080' --stop-signal SIGTERM \
  --healthcheck "CMD bash -c 'exec 3<>/dev/tcp/127.0.0.1/8080 && printf \"GET /healthz HTTP/1.0\\r\\n\\r\\n\" >&3 && grep -q \"^HTTP/1.. 200\" <&3'" \
  --healthcheck-interval 30s --healthcheck-timeout 5s --healthcheck-start-period 30s \
  --label org.opencontainers.image.title=lookalike --label "org.opencontainers.image.version=$version" \
  --label "org.opencontainers.image.description=near-duplicate detection for web crawls" \
  --label "org.opencontainers.image.licenses=MIT OR Apache-2.0" \
  --label "org.opencontainers.image.revision=$(git rev-parse HEAD 2> /dev/null || echo unknown)" "$image"

mkdir -p "$out"
archive=$out/lookalike_${version}_$(dpkg --print-architecture).image.tar
rm -f "$archive"
buildah "${storage[@]}" commit --quiet --format docker --timestamp "$SOURCE_DATE_EPOCH" "$image" \
  "docker-archive:$archive:lookalike:${version//\~/-}" > /dev/null
echo "$archive"
