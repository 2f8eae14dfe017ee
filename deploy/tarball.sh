#!/usr/bin/env bash
# Packs the program with its manual, completions, profiles, licences and documents: deploy/tarball.sh [--program FILE] [--out DIR]
#
# Without --program it builds the program first. The archive goes to DIR (dist) with a file of its SHA-256, and its path to
# standard output. deploy/install.sh installs it. CARGO_FLAGS holds more flags for cargo.
set -euo pipefail
. "$(dirname "$0")/packaging.sh"

for tool in strip ldd gzip tar sha256sum; do
  command -v $tool >/dev/null || fail "there is no $tool; on Debian: apt-get install binutils libc-bin gzip tar coreutils"
done

# What the program brings along; it may ask a machine only for what every one has.
libraries=$(ldd "$program") || fail "ldd cannot read $program; build it for this machine"
if bundled=$(grep -E 'lib(rocksdb|rdkafka|zstd)\.' <<<"$libraries"); then
  fail "the program needs these from the machine: $bundled; build it without the ..._LIB_DIR variables of these libraries"
fi

mkdir -p "$work/bin"
strip -o "$work/bin/lookalike" "$program"
chmod 755 "$work/bin/lookalike"
read -r _ version _ < <("$work/bin/lookalike" --version)
name=lookalike-$version-$(uname -m)-linux
root=$work/$name
share=$root/share
mkdir -p "$root" "$share"/{man/man1,bash-completion/completions,zsh/site-functions,fish/vendor_completions.d} \
  "$share"/{lookalike,doc/lookalike}
mv "$work/bin" "$root"
"$root/bin/lookalike" man "$share/man/man1" >/dev/null
gzip -9n "$share"/man/man1/*
"$root/bin/lookalike" completions bash >"$share/bash-completion/completions/lookalike"
"$root/bin/lookalike" completions zsh >"$share/zsh/site-functions/_lookalike"
"$root/bin/lookalike" completions fish >"$share/fish/vendor_completions.d/lookalike.fish"
cp -r --no-preserve=mode config "$share/lookalike"
cp --no-preserve=mode README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$share/doc/lookalike"
cp -r --no-preserve=mode docs "$share/doc/lookalike"
# Of the libraries that are part of the program.
cp --no-preserve=mode deploy/debian/copyright "$share/doc/lookalike"

mkdir -p "$out"
tar --create --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$work" "$name" \
  | gzip -9n >"$work/archive"
mv "$work/archive" "$out/$name.tar.gz"
(cd "$out" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
echo "$out/$name.tar.gz"
