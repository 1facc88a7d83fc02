#!/usr/bin/env bash
# Runs backups against real S3 servers, each installed from its registry into S3_DIR (default: a temporary folder): moto (PyPI), s3rver (npm), and
# Versity's gateway (Go), which checks signatures and regions strictly, over TLS. Servers that cannot be installed are skipped.
set -uo pipefail
cd "$(dirname "$0")/../.."
work=${S3_DIR:-$(mktemp -d)}
mkdir -p "$work/buckets/shop"
go test -c -o "$work/backup.test" -tags integration ./test/backup || exit 1
export ILION_TEST_BUCKET=shop AWS_ACCESS_KEY_ID=S3RVER AWS_SECRET_ACCESS_KEY=S3RVER AWS_REGION=us-east-1
servers=() failed=0
trap 'kill "${servers[@]}" 2>/dev/null; wait' EXIT

check() { # name, URL; the server was started last
  servers+=($!)
  for _ in $(seq 120); do curl -sko /dev/null "$2" && break; sleep 0.5; done
  [ "$1" != moto ] || curl -so /dev/null -X PUT "$2/shop"
  if (cd test/backup && AWS_ENDPOINT_URL=$2 "$work/backup.test" -test.run TestRealServer -test.v) >"$work/$1.test.log" 2>&1; then
    echo "ok      $1"
  else
    echo "FAILED  $1:"; tail -n 30 "$work/$1.test.log"; failed=1
  fi
}

if python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q 'moto[server]'; then
  "$work/venv/bin/moto_server" -H 127.0.77.1 -p 5055 >"$work/moto.log" 2>&1 &
  check moto http://127.0.77.1:5055
else echo "skipped moto"; fi

if npm install --silent --prefix "$work/npm" s3rver >"$work/npm.log" 2>&1; then
  node "$work/npm/node_modules/.bin/s3rver" -d "$work/s3rver" -a 127.0.77.2 -p 4568 --configure-bucket shop >"$work/s3rver.log" 2>&1 &
  check s3rver http://127.0.77.2:4568
else echo "skipped s3rver"; fi

if GOBIN=$work CGO_ENABLED=0 go install github.com/versity/versitygw/cmd/versitygw@v1.8.0 &&
  (cd "$work" && go run "$(go env GOROOT)/src/crypto/tls/generate_cert.go" --host 127.0.77.3 --ca --ecdsa-curve P256); then
  export AWS_REGION=eu-test-1 AWS_CA_BUNDLE=$work/cert.pem
  "$work/versitygw" --access S3RVER --secret S3RVER --region $AWS_REGION --port 127.0.77.3:7070 --cert "$work/cert.pem" --key "$work/key.pem" \
    posix "$work/buckets" >"$work/versitygw.log" 2>&1 &
  check versitygw https://127.0.77.3:7070
else echo "skipped versitygw"; fi
exit $failed
