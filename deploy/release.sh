#!/usr/bin/env bash
# Build the release files in dist/: a tar archive for each platform, Debian packages, a bill of materials, and checksums.
# Builds are reproducible: the same commit results in the same bytes on every machine. Requires only Go and its module
# proxy.
#   deploy/release.sh [SYSTEM/PROCESSOR...]
set -euo pipefail
cd "$(dirname "$0")/.."
MTIME=$(git log -1 --format=%cI)
VERSION=$(git describe --tags --always --match 'v*' 2>/dev/null | sed 's/^v//')
case $VERSION in [0-9]*.*) ;; *) VERSION=0.0.0+$VERSION ;; esac
export MTIME VERSION CGO_ENABLED=0 TZ=UTC LC_ALL=C
rm -rf dist && mkdir dist
go build -trimpath -o dist/here ./cmd/ilion

for target in "${@:-linux/amd64 linux/arm64 darwin/arm64}"; do for t in $target; do
  export GOOS=${t%/*} ARCH=${t#*/}
  export OUT=dist/ilion-$VERSION-$GOOS-$ARCH
  mkdir "$OUT"
  GOARCH=$ARCH go build -trimpath -ldflags "-s -w" -o "$OUT/ilion" ./cmd/ilion
  for shell in bash zsh fish; do dist/here completion $shell > "$OUT/ilion.$shell"; done
  dist/here manual | gzip -9n > "$OUT/ilion.1.gz"
  cp LICENSE README.md "$OUT"
  find "$OUT" -exec touch -d "$MTIME" {} +
  tar --sort=name --mtime="$MTIME" --owner=0 --group=0 --numeric-owner -C dist -cf - "${OUT#dist/}" | gzip -9n > "$OUT.tar.gz"
  if [ "$GOOS" = linux ]; then
    sed "s|ARCH|$ARCH|; s|VERSION|$VERSION|; s|MTIME|$MTIME|; s|OUT/|$OUT/|" deploy/deb/nfpm.yaml > "$OUT.yaml"
    env -u GOOS go run github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.0 package --config "$OUT.yaml" --packager deb --target dist/
    rm "$OUT.yaml"
  fi
done; done
unset GOOS
go run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0 bin -json -noserial -version "$VERSION" \
  -output "dist/ilion-$VERSION.cdx.json" dist/here
rm dist/here
(cd dist && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum > SHA256SUMS)
ls -l dist
