# SPDX-License-Identifier: Apache-2.0
"""Follows the change feed of shop.orders to its end, changes a row, and goes on: change_feed.py HOST PORT"""
import sys

from cassandra.cluster import Cluster
from cassandra.query import SimpleStatement

cluster = Cluster([sys.argv[1]], port=int(sys.argv[2]), protocol_version=4)
session = cluster.connect()


def follow(session, state, handle):
    """Passes the changes of shop.orders after state to handle, and returns the new state. Begin with None."""
    feed = SimpleStatement("""SELECT customer, number, total FROM shop.orders
        WHERE cosmos_changefeed_start_time() = 0 AND cosmos_changefeed_mode() = 'all'""", fetch_size=100)
    while True:
        page = session.execute(feed, paging_state=state)
        changes = page.current_rows  # iterating over page itself would never end
        for change in changes:
            handle(change)
        state = page.paging_state  # store it together with the results of handle
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
