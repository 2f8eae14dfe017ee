#!/usr/bin/env bash
# Installs the Debian packages that building needs and, with --tests, those that testing needs.
# Without the right to install, it names the missing packages and ends with 1.
set -euo pipefail

packages=(build-essential clang libclang-dev libssl-dev pkg-config zlib1g-dev)
[ "${1:-}" = "--tests" ] \
  && packages+=(chromium chromium-driver curl default-jre-headless fonts-dejavu-core jq maven nginx-light openssl
    python3-confluent-kafka)

# Elsewhere than on Debian, the compiler names what it lacks.
command -v dpkg-query >/dev/null || exit 0

present() {
  case $1 in
    # Any Java 17 and any Maven will do, wherever they come from.
    default-jre-headless) command -v java >/dev/null && return ;;
    # Any Chromium with its driver.
    chromium) command -v chromium >/dev/null && return ;;
    chromium-driver) command -v chromedriver >/dev/null && return ;;
    curl) command -v curl >/dev/null && return ;;
    jq) command -v jq >/dev/null && return ;;
    maven) command -v mvn >/dev/null && return ;;
    nginx-light) PATH=$PATH:/usr/sbin command -v nginx >/dev/null && return ;;
    python3-confluent-kafka) python3 -c 'import confluent_kafka' 2>/dev/null && return ;;
  esac
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing=()
for package in "${packages[@]}"; do
  present "$package" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if sudo -n true 2>/dev/null; then
    as_root=(sudo)
  else
    echo "these Debian packages are missing; install them and run this again:" >&2
    echo "  sudo apt-get install ${missing[*]}" >&2
    exit 1
  fi
fi
echo "installing ${missing[*]}" >&2
"${as_root[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
