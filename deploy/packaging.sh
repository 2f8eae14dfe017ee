# Sourced by the scripts that pack the program. Reads their options, --program FILE and --out DIR, into `program` and `out`, and
# builds the program if none is given; standard output is left to the script. `work` is a folder that goes when the script ends.
fail() { echo "$(basename "$0"): $*" >&2; exit 1; }

program=
out=
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || fail "$1 is no option, or lacks its value"
  case $1 in
    --program) program=$(realpath "$2") ;;
    --out) out=$(realpath -m "$2") ;;
    *) fail "unknown option $1" ;;
  esac
  shift 2
done
cd "$(dirname "$0")/.."
out=${out:-$PWD/dist}

if [ -z "$program" ]; then
  deploy/debian-packages.sh >&2
  . deploy/target-dir.sh
  read -ra flags <<<"${CARGO_FLAGS:-}"
  cargo build --release --locked "${flags[@]}" --bin lookalike >&2
  program=$CARGO_TARGET_DIR/release/lookalike
fi

# One commit and one program make the same package, to the byte.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
