#!/usr/bin/env bash
# Installs Lookalike as the machine allows: as a Debian package, or from an archive into a folder.
set -euo pipefail

usage() {
  cat <<HELP
install.sh: installs Lookalike, or removes it

  install.sh [--prefix DIR] [--dry-run]       install
  install.sh --uninstall [--prefix DIR] [--dry-run]

On Debian and Ubuntu root gets the package of dist/, or one that deploy/debian.sh builds. Everyone else, and whoever gives
--prefix, gets the archive of dist/, or one that deploy/tarball.sh builds, unpacked into DIR (~/.local; root: /usr/local).

  --prefix DIR   where bin/ and share/ are
  --uninstall    remove what was installed; stores and configurations stay
  --dry-run      print each step instead
  --program FILE a built program to pack, instead of building one
  --dist DIR     where packages and archives are (default: dist)
HELP
}

fail() { echo "install.sh: $*" >&2; exit 1; }

prefix=
program=()
uninstall=
dry=
here=$(cd "$(dirname "$0")/.." && pwd)
dist=$here/dist
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --uninstall) uninstall=yes; shift; continue ;;
    --dry-run) dry=yes; shift; continue ;;
  esac
  [ $# -ge 2 ] || fail "$1 is no option, or lacks its value; see --help"
  case $1 in
    --prefix) prefix=$(realpath -m "$2") ;;
    --program) program=(--program "$(realpath "$2")") ;;
    --dist) dist=$(realpath -m "$2") ;;
    *) fail "unknown option $1; see --help" ;;
  esac
  shift 2
done

step() {
  echo "+ $*" >&2
  [ -n "$dry" ] || "$@"
}

is_root() { [ "$(id -u)" -eq 0 ]; }
as_package() { [ -z "$prefix" ] && is_root && command -v dpkg >/dev/null && command -v apt-get >/dev/null; }

# The newest file of a pattern in dist/, or nothing.
newest() {
  find "$dist" -maxdepth 1 -name "$1" -printf '%T@ %p\n' 2>/dev/null | sort -n | tail -n 1 | cut -d ' ' -f 2-
}

# A package or archive: that of dist/ unless a program is given, or a new one.
made() { # PATTERN SCRIPT
  local file=
  [ ${#program[@]} -gt 0 ] || file=$(newest "$1")
  if [ -z "$file" ]; then
    echo "+ $here/deploy/$2 --out $dist ${program[*]}" >&2
    if [ -n "$dry" ]; then file=$dist/$1; else file=$("$here/deploy/$2" --out "$dist" "${program[@]}"); fi
  fi
  echo "$file"
}

if as_package; then
  if [ -n "$uninstall" ]; then
    [ -n "$(dpkg-query -W lookalike 2>/dev/null)" ] || fail "the package lookalike is not installed; name the folder with --prefix"
    step apt-get remove -y lookalike
  else
    package=$(made "lookalike_*_$(dpkg --print-architecture).deb" debian.sh)
    step apt-get install -y --no-install-recommends "$package"
  fi
  exit
fi

# The folders of a file below the prefix.
folders_of() {
  local folder=$1
  while folder=$(dirname "$folder"); [ "$folder" != . ]; do echo "$folder"; done
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "$prefix" ]; then
  if is_root; then prefix=/usr/local; else prefix=${HOME:?"is not set: name a folder with --prefix"}/.local; fi
fi
list=$prefix/share/lookalike/installed

if [ -n "$uninstall" ]; then
  [ -f "$list" ] || fail "$list is missing: install.sh has installed nothing in $prefix"
  mapfile -t files <"$list"
  for file in "${files[@]}" "${list#"$prefix/"}"; do
    step rm -f -- "$prefix/$file"
    folders_of "$file"
  done | sort -ru >"$work/folders"
  # Those that are empty now; folders with other files stay, and so does the prefix.
  while IFS= read -r folder; do
    [ ! -d "$prefix/$folder" ] || step rmdir --ignore-fail-on-non-empty -- "$prefix/$folder"
  done <"$work/folders"
  exit
fi

archive=$(made "lookalike-*-$(uname -m)-linux.tar.gz" tarball.sh)
if [ -n "$dry" ]; then
  step sha256sum --check "$archive.sha256"
  step tar --extract --file "$archive" --directory "$prefix" --strip-components 1
  step "$prefix/bin/lookalike" --version
  exit
fi
(cd "$(dirname "$archive")" && sha256sum --check --quiet "$(basename "$archive").sha256") \
  || fail "$archive is not what its .sha256 file says; make it anew with deploy/tarball.sh"
mkdir -p "$prefix" && [ -w "$prefix" ] || fail "$prefix cannot be written to; name another folder with --prefix"
tar --extract --gzip --file "$archive" --directory "$work"
from=$(find "$work" -mindepth 1 -maxdepth 1 -type d -name 'lookalike-*')
"$from/bin/lookalike" --version >/dev/null || fail "the program of $archive does not run on this machine; build one here: deploy/install.sh --program FILE"
(cd "$from" && find . -type f -printf '%P\n' | sort) >"$work/files"
# What is there and not ours stays as it is.
while IFS= read -r file; do
  if [ -e "$prefix/$file" ] && ! grep -qsxF "$file" "$list"; then
    fail "$prefix/$file is there already, and not by install.sh; remove it, or name another folder with --prefix"
  fi
done <"$work/files"
# Files that a former version had and this one lacks go with an uninstall.
mkdir -p "$(dirname "$list")"
{ cat "$work/files"; [ ! -f "$list" ] || cat "$list"; } | sort -u >"$work/list"
mv "$work/list" "$list"
step cp -r "$from/." "$prefix"
step "$prefix/bin/lookalike" --version
case :$PATH: in *":$prefix/bin:"*) ;; *) echo "add $prefix/bin to PATH" >&2 ;; esac
