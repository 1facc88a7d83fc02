#!/bin/sh
# The user that the service runs as. The service is not started: its configuration comes first.
set -e
if ! getent passwd ilion >/dev/null; then
  useradd --system --user-group --home-dir /var/lib/ilion --no-create-home --shell /usr/sbin/nologin ilion
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart ilion.service
fi
