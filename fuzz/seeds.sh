#!/usr/bin/env bash
# Fills fuzz/corpus with the beginnings of shipped pages, so that a fuzzer need not invent HTML, JSON and Japanese.
# Then, from the project's folder, with a nightly toolchain or RUSTC_BOOTSTRAP=1:
#   cargo fuzz run html --sanitizer none -- -dict=fuzz/html.dict -max_len=20000 -timeout=5
set -euo pipefail
cd "$(dirname "$0")"

sample() { # every n-th line of the shipped sweeps
  zstd -dcq ../bench-data/manual-cjk.jsonl.zst ../bench-data/sweep-1-2014-08-01.jsonl.zst | awk -v n="$1" 'NR % n == 1'
}

mkdir -p corpus/{decode,html,words,sketch_codec,page_json}
n=0
while IFS= read -r page; do
  n=$((n + 1))
  body=$(jq -j '.body[:2000]' <<<"$page")
  printf '%s' "$body" >"corpus/html/page-$n"
  printf '%s' "$body" | sed 's/<[^>]*>//g' >"corpus/words/page-$n"
  # The first byte chooses the label and the media type: see properties.rs.
  printf "\\x$(printf %02x $((n % 72)))%s" "$body" >"corpus/decode/page-$n"
  jq -cj '.body |= .[:40] | .url |= .[-20:] | .sweep |= .[:8]' <<<"$page" >"corpus/page_json/page-$n"
done < <(sample 12)
for charset in SHIFT_JIS EUC-JP ISO-2022-JP EUC-KR GB18030 BIG5 UTF-16LE UTF-16BE; do
  { printf '\1'; jq -j '.body[:1200]' <<<"$page" | iconv -c -t "$charset"; } >"corpus/decode/$charset" || true
done
i=0
for field in '"body":null' '"body_base64":"6Q=="' '"features":["a","b"]' '"gone":true' '"http_status":404' \
  '"http_status":"x","body":"x"' '"text":"a b"' '"content_type":"text/html; charset=big5","body_base64":"pKQ="'; do
  i=$((i + 1))
  printf '{"url":"http://a/","fetched_at":"2020-01-01T00:00:00Z","sweep":"s",%s}' "$field" >"corpus/page_json/field-$i"
done
# One of each form: a sample of two shingles, three whole ones, a bitmap of 64 bits.
printf '\2\0\2\50\5\7' >corpus/sketch_codec/sample
printf '\3\1\0\0\0\0\0\0' >corpus/sketch_codec/whole
printf '\3\2\6\0\0\0\0\0\0\0\1' >corpus/sketch_codec/parity
head -c 600 /dev/zero | tr '\0' '\377' >corpus/sketch_codec/ones
for rule in 0 1 2 3 4 5; do
  { printf "\\$rule\\20"; seq 1 60 | tr -d '\n'; } >"corpus/sketch_codec/rule-$rule"
done
