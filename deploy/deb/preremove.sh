#!/bin/sh
# An upgrade restarts the node after the installation. The data directory is never removed.
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  systemctl disable --now ilion.service
fi
