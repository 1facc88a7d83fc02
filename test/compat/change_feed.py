# SPDX-License-Identifier: Apache-2.0
"""Follows the change feed of shop.orders to its end, changes a row, and goes on: change_feed.py HOST PORT"""
import sys

from cassandra.cluster import Cluster
from cassandra.query import SimpleStatement

cluster = Cluster([sys.argv[1]], port=int(sys.argv[2]), protocol_version=4)
session = cluster.connect()


def follow(session, state, handle):
    """Passes the changes of shop.orders to handle, from state on, which is None at first; returns where the feed goes on."""
    feed = SimpleStatement("""SELECT customer, number, total FROM shop.orders
        WHERE cosmos_changefeed_start_time() = 0 AND cosmos_changefeed_mode() = 'all'""", fetch_size=100)
    while True:
        page = session.execute(feed, paging_state=state)
        changes = page.current_rows  # to iterate over the page itself would fetch for ever
        for change in changes:
            handle(change)
        state = page.paging_state  # keep it with what handle has done
        if not changes:
            return state


seen = []
state = follow(session, None, seen.append)
counts = [len(seen)]
state = follow(session, state, seen.append)
counts.append(len(seen) - counts[0])
session.execute("DELETE FROM shop.orders WHERE customer = 'c1'")
follow(session, state, seen.append)
counts.append(len(seen) - sum(counts))
assert seen[-1].operation == "delete_partition" and seen[-1].customer == "c1", seen[-1]
print("%d changes, then %d, then %d" % tuple(counts))
cluster.shutdown()
