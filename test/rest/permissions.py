# SPDX-License-Identifier: Apache-2.0
"""Creates users and permissions with azure-cosmos, and uses resource tokens at another node. The arguments are the endpoint
for the account key, the key, and the endpoint for the tokens. Before a token must have expired, the program prints a line and
waits for a line. Exits with 1 at the first wrong result."""
import sys

from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError

endpoint, key, other = sys.argv[1:4]
client = CosmosClient(endpoint, key, enable_endpoint_discovery=False)


def limited(tokens):
    return CosmosClient(other, tokens, enable_endpoint_discovery=False).get_database_client("perm").get_container_client("foods")


def fails(status, call, what):
    try:
        call()
    except CosmosHttpResponseError as e:
        assert e.status_code == status, f"{what}: {e}"
        return
    raise AssertionError(f"{what}: no error, want {status}")


def users(database):
    user = database.create_user({"id": "u"})
    fails(409, lambda: database.create_user({"id": "u"}), "a user twice")
    database.upsert_user({"id": "v"})
    database.replace_user("v", {"id": "w"})
    assert [u["id"] for u in database.list_users()] == ["u", "w"]
    found = database.query_users("SELECT * FROM r WHERE r.id = @id", parameters=[{"name": "@id", "value": "w"}])
    assert [u["id"] for u in found] == ["w"]
    database.delete_user("w")
    fails(404, lambda: database.get_user_client("w").read(), "a deleted user")
    return user


def permissions(user, container):
    link = container.container_link
    made = user.create_permission({"id": "p", "permissionMode": "read", "resource": link})
    fails(409, lambda: user.create_permission({"id": "q", "permissionMode": "all", "resource": link}), "the same resource")
    assert made.properties["_token"].startswith("type=resource&ver=1&sig=")
    assert [p["id"] for p in user.list_permissions()] == ["p"]
    found = list(user.query_permissions("SELECT * FROM r WHERE r.id = 'p'"))
    foods = limited({link: found[0]["_token"]})
    assert foods.read_item("1", "a")["id"] == "1"
    assert foods.read()["id"] == "foods"
    ordered = foods.query_items("SELECT VALUE c.k FROM c ORDER BY c.k", enable_cross_partition_query=True)
    assert list(ordered) == ["a", "b"]
    assert len(list(foods.query_items_change_feed(is_start_from_beginning=True))) == 2
    assert len(list(foods.read_all_items())) == 2
    fails(403, lambda: foods.upsert_item({"id": "2", "k": "a"}), "a write")
    user.replace_permission("p", {"id": "p", "permissionMode": "all", "resource": link})
    fails(401, lambda: foods.read_item("1", "a"), "a token of a replaced permission")
    foods = limited({link: user.get_permission("p").properties["_token"]})
    foods.upsert_item({"id": "2", "k": "a"})
    foods.delete_item("2", "a")
    user.delete_permission("p")
    fails(401, lambda: foods.read_item("1", "a"), "a token of a deleted permission")


def keyed(user, container):
    own = {"id": "own", "permissionMode": "All", "resource": container.container_link, "resourcePartitionKey": ["a"]}
    token = user.upsert_permission(own, resource_token_expiry_seconds=10).properties["_token"]
    foods = limited({container.container_link: token})
    assert foods.read_item("1", "a")["id"] == "1"
    assert len(list(foods.query_items("SELECT * FROM c", partition_key="a"))) == 1
    foods.execute_item_batch([("upsert", ({"id": "2", "k": "a"},))], "a")
    fails(403, lambda: foods.read_item("1", "b"), "another key")
    fails(403, lambda: list(foods.query_items("SELECT * FROM c", enable_cross_partition_query=True)), "all keys")
    fails(403, lambda: foods.create_item({"id": "2", "k": "b"}), "a write to another key")
    item = user.create_permission({"id": "item", "permissionMode": "read", "resource": container.container_link + "/docs/1",
                                   "resourcePartitionKey": ["b"]}).properties
    foods_item = limited({item["resource"]: item["_token"]})
    assert foods_item.read_item("1", "b")["k"] == "b"
    fails(403, lambda: foods_item.read_item("1", "a"), "an item with another key")

    print("expire", flush=True)
    sys.stdin.readline()
    fails(403, lambda: foods.read_item("1", "a"), "an expired token")
    foods = limited({container.container_link: user.get_permission("own").properties["_token"]})
    assert foods.read_item("1", "a")["id"] == "1"


def feed(user, container):
    # This SDK can only read the account with a feed of permissions: it does not find their tokens for other requests.
    link = container.read()["_self"].rstrip("/")
    permission = user.create_permission({"id": "rid", "permissionMode": "read", "resource": link}).properties
    CosmosClient(other, [permission], enable_endpoint_discovery=False)
    foods = limited({container.container_link: permission["_token"]})
    assert foods.read_item("1", "b")["k"] == "b"


def main():
    database = client.create_database("perm")
    container = database.create_container("foods", PartitionKey("/k"))
    for k in ["a", "b"]:
        container.create_item({"id": "1", "k": k})
    user = users(database)
    permissions(user, container)
    keyed(user, container)
    feed(user, container)
    client.delete_database("perm")


main()
