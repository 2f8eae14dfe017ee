#!/usr/bin/env bash
# Builds a Debian package of the program, its manual and its services: deploy/debian.sh [--program FILE] [--out DIR]
#
# Without --program it builds the program first. The package goes to DIR (dist), and its path to standard output. It is made
# for this Debian and this processor. DEBFULLNAME and DEBEMAIL name its maintainer. CARGO_FLAGS holds more flags for cargo.
set -euo pipefail
. "$(dirname "$0")/packaging.sh"

command -v dpkg-shlibdeps strip >/dev/null || fail "dpkg-shlibdeps or strip is missing: apt-get install dpkg-dev binutils"

# dpkg-shlibdeps looks for it where a source package has it.
root=$work/debian/lookalike
documents=usr/share/doc/lookalike

put() { # MODE FOLDER FILE...
  local mode=$1 folder=$root/$2
  shift 2
  install -d "$folder"
  install -m "$mode" -t "$folder" "$@"
}

lookalike=$root/usr/bin/lookalike
install -d "$root/usr/bin"
strip -o "$lookalike" "$program"
chmod 755 "$lookalike"

"$lookalike" man "$root/usr/share/man/man1" >/dev/null
gzip -9n "$root"/usr/share/man/man1/*
complete() { # SHELL FILE
  install -d "$(dirname "$root/usr/share/$2")"
  "$lookalike" completions "$1" >"$root/usr/share/$2"
}
complete bash bash-completion/completions/lookalike
complete zsh zsh/vendor-completions/_lookalike
complete fish fish/vendor_completions.d/lookalike.fish

put 755 DEBIAN deploy/debian/{postinst,prerm,postrm}
put 644 usr/lib/systemd/system deploy/lookalike.service deploy/lookalike-serve.service
put 644 etc/lookalike deploy/debian/lookalike.toml config/kafka.toml
put 644 usr/share/lookalike/config config/*.toml

put 644 $documents deploy/debian/copyright README.md
cp -r --no-preserve=mode docs "$root/$documents"
# The documents link to it.
ln -s ../../lookalike/config "$root/$documents/config"
gzip -9nc CHANGELOG.md >"$root/$documents/changelog.gz"

read -r _ version _ < <("$lookalike" --version)
# A version before another, such as 1.0.0-rc.1, is 1.0.0~rc.1 to Debian.
version=${version/-/\~}-1
maintainer="${DEBFULLNAME:-The Lookalike authors} <${DEBEMAIL:-lookalike@localhost}>"
gzip -9n >"$root/$documents/changelog.Debian.gz" <<CHANGES
lookalike ($version) unstable; urgency=medium

  * Built by deploy/debian.sh; changelog.gz says what changed.

 -- $maintainer  $(LC_ALL=C date -Rud "@$SOURCE_DATE_EPOCH")
CHANGES

printf 'Source: lookalike\n\nPackage: lookalike\nArchitecture: any\n' >"$work/debian/control"
libraries=$(cd "$work" && dpkg-shlibdeps -O -edebian/lookalike/usr/bin/lookalike | sed -n 's/^shlibs:Depends=//p')
[ -n "$libraries" ] || fail "dpkg-shlibdeps named no library that the program needs"

architecture=$(dpkg --print-architecture)
installed_kib=$(du -sk --apparent-size "$root" | cut -f 1)
cat >"$root/DEBIAN/control" <<CONTROL
Package: lookalike
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $installed_kib
Depends: adduser, $libraries
Recommends: ca-certificates
Section: net
Priority: optional
Description: near-duplicate detection for web crawls
 Lookalike watches a web crawl and tells of every page where else it is: its
 copies, near-copies, versions and moves. It takes pages in from Kafka or from
 files, clusters them in a durable store, and answers over HTTP.
CONTROL
(cd "$root/etc" && find . -type f -printf '/etc/%P\n' | sort) >"$root/DEBIAN/conffiles"
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"

mkdir -p "$out"
package=$out/lookalike_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$root" "$package" >/dev/null
echo "$package"
