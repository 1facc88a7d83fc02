#!/bin/sh
# Create the user of the service. The service does not start automatically, because it must be configured first.
set -e
if ! getent passwd ilion >/dev/null; then
  useradd --system --user-group --home-dir /var/lib/ilion --no-create-home --shell /usr/sbin/nologin ilion
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart ilion.service
fi
