#!/usr/bin/env bash
# deploy/examples/proxy with a real nginx, on loopback: TLS, tokens, limits for each client, the audit trail, a stream of events.
#
#   tests/proxy.sh PROGRAM
#
# Skipped, with the reason, where there is no nginx, openssl or curl.
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")/.."

fail() { echo "$*" >&2; exit 1; }
for needed in nginx openssl curl; do
  PATH=$PATH:/usr/sbin command -v "$needed" > /dev/null || { echo "skipped: there is no $needed: apt-get install $needed"; exit 0; }
done
nginx=$(PATH=$PATH:/usr/sbin command -v nginx)

work=$(mktemp -d)
chmod 755 "$work"
processes=()
clean_up() {
  for process in "${processes[@]}"; do kill "$process" 2> /dev/null || true; done
  wait
  rm -rf "$work"
}
trap clean_up EXIT

free_port() {
  local port=$1
  while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2> /dev/null; do port=$((port + 10)); done
  echo "$port"
}
app=$(free_port 20480) tls=$(free_port 20443)
read_token=$(head -c 24 /dev/urandom | base64) token=$(head -c 24 /dev/urandom | base64)
echo "$read_token" > "$work/read-token"
echo "$token" > "$work/token"

openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=crawl.example -addext "subjectAltName=DNS:crawl.example" \
  -keyout "$work/key.pem" -out "$work/cert.pem" 2> /dev/null

mkfifo "$work/pages"
export LOOKALIKE__HTTP__HOSTS=crawl.example LOOKALIKE__STORE__KEEP_EVENTS=10000
export LOOKALIKE__HTTP__TRUSTED_PROXIES=127.0.0.1 LOOKALIKE__HTTP__REQUESTS_PER_SECOND_MAX=2 LOOKALIKE__LOG__AUDIT_FILE=$work/audit.jsonl
LOOKALIKE__HTTP__READ_TOKEN=file:$work/read-token LOOKALIKE__HTTP__TOKEN=file:$work/token \
  "$program" run --quiet --store "$work/store" --http-listen "127.0.0.1:$app" --stdin-name crawl < "$work/pages" 2> "$work/log" &
processes+=($!)
exec 4> "$work/pages"
zstd -dc bench-data/sweep-1-*.jsonl.zst >&4

# The file as it is, with this machine's certificate and ports.
{
  echo "daemon off; worker_processes 1; pid $work/nginx.pid; error_log $work/error.log; events {} http { access_log off;"
  for kind in client_body proxy fastcgi uwsgi scgi; do echo "${kind}_temp_path $work/$kind;"; done
  sed -e "s|127.0.0.1:8080|127.0.0.1:$app|; s|listen 443 ssl|listen 127.0.0.1:$tls ssl|" \
    -e "s|/etc/ssl/crawl.example.pem|$work/cert.pem|; s|/etc/ssl/private/crawl.example.key|$work/key.pem|" \
    deploy/examples/proxy/nginx.conf
  echo "}"
} > "$work/nginx.conf"
"$nginx" -c "$work/nginx.conf" -p "$work" > /dev/null 2> "$work/nginx.log" &
processes+=($!)

ask() { curl -s --cacert "$work/cert.pem" --resolve "crawl.example:$tls:127.0.0.1" "$@"; }
site=https://crawl.example:$tls
status() { ask -o "$work/body" -w '%{http_code}' "$@"; }
expect() {
  local expected=$1 found
  shift
  found=$(status "$@")
  [ "$found" = "$expected" ] || fail "$* gives $found, not $expected: $(head -c 400 "$work/body")"
}
until [ "$(status "$site/healthz" || true)" = 200 ]; do
  ((SECONDS < 60)) || { cat "$work/log" "$work/nginx.log" "$work/error.log" >&2; fail "it does not answer"; }
  sleep 0.2
done

reader=(-H "authorization: Bearer $read_token") operator=(-H "authorization: Bearer $token")
expect 401 "$site/v1/stats"
expect 200 "${reader[@]}" "$site/v1/stats"
expect 200 -u "anna:$read_token" "$site/"
grep -q '<html' "$work/body" || fail "a browser gets no page"
expect 403 -X POST "${reader[@]}" "$site/v1/sweeps/1-2014-08-01/close"
expect 401 -X POST -u "anna:$token" "$site/v1/sweeps/1-2014-08-01/close"
expect 200 -X POST "${operator[@]}" "$site/v1/sweeps/1-2014-08-01/close"
expect 403 -X POST "${operator[@]}" -H 'origin: https://evil.example' "$site/v1/sweeps/1-2014-08-01/close"
expect 200 --interface 127.0.9.3 -X POST "${operator[@]}" -H 'x-forwarded-for: 192.0.2.1' "$site/v1/sweeps/1-2014-08-01/close"
for lines in "$work/log" "$work/audit.jsonl"; do
  grep '127\.0\.9\.3' "$lines" | grep -q done || fail "$lines does not say who closed the sweep: $(cat "$lines")"
  if grep -q 192.0.2.1 "$lines"; then fail "a client chose its address: $(cat "$lines")"; fi
done

# Asks until the program refuses for a reason, and prints how many requests it answered before. nginx lets 40 pass at once.
answered_before() {
  local reason=$1 n
  shift
  for ((n = 0; n < 40; n++)); do
    [ "$(status "$@" "$site/v1/sweeps")" != 429 ] || { grep -q "$reason" "$work/body" && echo "$n"; return; }
  done
}
n=$(answered_before http.requests_per_second_max --interface 127.0.9.1 "${reader[@]}")
[ "${n:-0}" -ge 20 ] || fail "a client has no limit, or less than ten seconds' worth: $n"
n=$(answered_before 'were refused' --interface 127.0.9.4 -H 'authorization: Bearer wrong-wrong-wrong')
[ "${n:-0}" -ge 10 ] || fail "wrong tokens have no limit, or a lower one: $n"
# Another client behind the proxy has its own.
expect 200 --interface 127.0.9.2 "${reader[@]}" "$site/v1/sweeps"

# What comes while the stream is open passes the proxy at once.
ask -N --max-time 20 "${reader[@]}" "$site/v1/events" > "$work/stream" || true &
stream=$!
until grep -q '^:' "$work/stream"; do ((SECONDS < 90)) || fail "no stream"; sleep 0.1; done
zstd -dc bench-data/sweep-2-*.jsonl.zst | sed -n 1,20p >&4
until grep -q '^event: ' "$work/stream"; do
  kill -0 "$stream" 2> /dev/null || fail "the stream ended without an event: $(cat "$work/stream")"
  sleep 0.1
done
kill "$stream" 2> /dev/null || true

if ask --tls-max 1.1 "$site/healthz" > /dev/null 2>&1; then fail "TLS 1.1 is accepted"; fi
ask -o /dev/null -D - "${reader[@]}" "$site/v1/stats" | grep -qi '^strict-transport-security: max-age=' || fail "no HSTS"

# 200 requests at once are more than 20 a second and 40.
seq 200 | sed "s|.*|url = $site/healthz\noutput = /dev/null|" > "$work/many"
ask --parallel --parallel-max 50 -w '%{http_code}\n' --config "$work/many" > "$work/codes" 2> /dev/null || true
n_refused=$(grep -c '^429$' "$work/codes" || true) n_answered=$(grep -c '^200$' "$work/codes" || true)
((n_refused > 0 && n_answered > 0)) || fail "200 requests at once: $n_answered answered, $n_refused refused"

echo "proxy: TLS, tokens, limits by client, an audit trail, a stream, and $n_refused of 200 requests at once refused"
