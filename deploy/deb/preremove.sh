#!/bin/sh
# An upgrade restarts the node afterwards; the data stay in any case.
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  systemctl disable --now ilion.service
fi
