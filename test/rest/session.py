# SPDX-License-Identifier: Apache-2.0
"""Runs typical operations of an application with azure-cosmos, with the endpoint and key of the command line. Exits with 1 at
the first wrong result."""
import datetime
import os
import sys

from azure.core import MatchConditions
from azure.cosmos import CosmosClient, PartitionKey, exceptions


def fails(status, what, f, *args, **options):
    try:
        f(*args, **options)
    except exceptions.CosmosHttpResponseError as e:
        assert e.status_code == status, f"{what}: {e.status_code} {e.message}"
        return
    raise AssertionError(f"{what}: no error, want {status}")


def resources(client):
    database = client.create_database("py")
    fails(409, "a database twice", client.create_database, "py")
    assert client.create_database_if_not_exists("py").id == "py"
    assert [d["id"] for d in client.list_databases()] == ["py"]
    assert [d["id"] for d in client.query_databases("SELECT * FROM c WHERE c.id = 'py'")] == ["py"]
    container = database.create_container("foods", PartitionKey("/foodGroup"), offer_throughput=4000, indexing_policy={
        "compositeIndexes": [[{"path": "/foodGroup", "order": "ascending"}, {"path": "/rank", "order": "descending"}]]})
    properties = container.read()
    assert properties["partitionKey"]["paths"] == ["/foodGroup"]
    assert properties["indexingPolicy"]["indexingMode"] == "consistent"
    assert container.get_throughput().offer_throughput == 4000
    assert container.replace_throughput(5000).offer_throughput == 5000
    assert [c["id"] for c in database.list_containers()] == ["foods"]
    assert len(list(container.read_feed_ranges())) == 1
    computed(database)
    vectors(database)
    return database, container


def computed(database):
    properties = [{"name": "lower", "query": "SELECT VALUE LOWER(c.name) FROM c"}]
    container = database.create_container("computed", PartitionKey("/k"), computed_properties=properties)
    assert container.read()["computedProperties"] == properties
    for i, name in enumerate(["Beta", "ALPHA", "alpha"]):
        container.create_item({"id": str(i), "k": str(i), "name": name})
    found = container.query_items("SELECT c.id, c.lower FROM c WHERE c.lower = 'alpha' ORDER BY c.id",
                                  enable_cross_partition_query=True)
    assert [dict(f) for f in found] == [{"id": "1", "lower": "alpha"}, {"id": "2", "lower": "alpha"}]
    assert "lower" not in list(container.query_items("SELECT * FROM c", partition_key="0"))[0]
    fails(400, "a computed property of two items", database.create_container, "bad", PartitionKey("/k"),
          computed_properties=[{"name": "all", "query": "SELECT VALUE COUNT(1) FROM c"}])
    database.delete_container("computed")


def vectors(database):
    policy = {"vectorEmbeddings": [{"path": "/v", "dataType": "float32", "dimensions": 3, "distanceFunction": "euclidean"}]}
    container = database.create_container("vectors", PartitionKey("/k"), vector_embedding_policy=policy, indexing_policy={
        "excludedPaths": [{"path": "/v/*"}], "includedPaths": [{"path": "/*"}],
        "vectorIndexes": [{"path": "/v", "type": "diskANN"}]})
    assert container.read()["vectorEmbeddingPolicy"] == policy
    for i in range(20):
        container.create_item({"id": str(i), "k": str(i % 4), "v": [i, 0, 1]})
    query = "SELECT TOP 3 c.id, VectorDistance(c.v, @v) AS score FROM c ORDER BY VectorDistance(c.v, @v)"
    found = container.query_items(query, parameters=[{"name": "@v", "value": [9.2, 0, 1]}], enable_cross_partition_query=True)
    assert [f["id"] for f in found] == ["9", "10", "8"]
    found = container.query_items(query, parameters=[{"name": "@v", "value": [9.2, 0, 1]}], partition_key="2")
    assert [f["id"] for f in found] == ["10", "6", "14"]
    fails(400, "an index without a policy", database.create_container, "bad", PartitionKey("/k"),
          indexing_policy={"vectorIndexes": [{"path": "/w", "type": "flat"}]})
    database.delete_container("vectors")


def items(container):
    beef = {"id": "1", "foodGroup": "Beef Products", "name": "Beef, ground", "calories": 254, "tags": ["red"]}
    made = container.create_item(beef)
    assert {"_rid", "_self", "_etag", "_ts"} <= made.keys()
    headers = made.get_response_headers()
    assert float(headers["x-ms-request-charge"]) > 0 and int(headers["lsn"]) > 0
    fails(409, "an item twice", container.create_item, beef)
    container.create_item({**beef, "foodGroup": "Baked Products"})
    assert container.read_item("1", "Beef Products")["name"] == "Beef, ground"
    # A dict instead of an ID: the link consists of resource IDs.
    assert container.read_item(made, "Beef Products")["id"] == "1"
    fails(404, "an item that is not there", container.read_item, "nosuch", "Beef Products")
    next = container.replace_item(made, {**beef, "calories": 255}, etag=made["_etag"],
                                  match_condition=MatchConditions.IfNotModified)
    assert next["calories"] == 255 and next["_etag"] != made["_etag"]
    assert int(next.get_response_headers()["lsn"]) > int(headers["lsn"])
    fails(412, "an old etag", container.replace_item, made, beef, etag=made["_etag"],
          match_condition=MatchConditions.IfNotModified)
    container.upsert_item({**beef, "id": "2"})
    assert container.upsert_item({**beef, "id": "2", "calories": 1})["calories"] == 1
    patched = container.patch_item("1", "Beef Products", [
        {"op": "incr", "path": "/calories", "value": 5}, {"op": "add", "path": "/tags/-", "value": "lean"},
        {"op": "set", "path": "/origin", "value": {"land": "é"}}, {"op": "remove", "path": "/name"}])
    assert patched["calories"] == 260 and patched["tags"] == ["red", "lean"] and patched["origin"]["land"] == "é"
    assert "name" not in patched
    fails(412, "a condition that does not hold", container.patch_item, "1", "Beef Products",
          [{"op": "incr", "path": "/calories", "value": 1}], filter_predicate="from c where c.calories > 1000")
    silent = container.create_item({"id": "3", "foodGroup": "Beef Products"}, no_response=True)
    assert not dict(silent)
    container.delete_item("2", "Beef Products")
    container.delete_item(container.read_item("3", "Beef Products"), "Beef Products")
    fails(404, "an item that is gone", container.delete_item, "2", "Beef Products")
    for id in ["a b", "é", "a.b", "100%20", "x+y=z"]:
        container.create_item({"id": id, "foodGroup": "names"})
        assert container.read_item(id, "names")["id"] == id
        container.delete_item(id, "names")


def keys(container):
    for id, key in [("n", None), ("t", True), ("f", False), ("0", 0), ("1.5", 1.5), ("e", "")]:
        container.create_item({"id": id, "foodGroup": key})
        assert container.read_item(id, key)["foodGroup"] == key


def batches(container):
    done = container.execute_item_batch([
        ("create", ({"id": "b1", "foodGroup": "batch", "n": 1},)), ("upsert", ({"id": "b2", "foodGroup": "batch"},)),
        ("read", ("b1",)), ("delete", ("b2",))], partition_key="batch")
    assert [r["statusCode"] for r in done] == [201, 201, 200, 204]
    try:
        container.execute_item_batch([("create", ({"id": "b3", "foodGroup": "batch"},)),
                                      ("create", ({"id": "b1", "foodGroup": "batch"},))], partition_key="batch")
        raise AssertionError("a batch with an item that exists")
    except exceptions.CosmosBatchOperationError as e:
        assert e.error_index == 1 and e.status_code == 409, (e.error_index, e.status_code)
    fails(404, "what was rolled back", container.read_item, "b3", "batch")


def queries(container):
    for i in range(10):
        container.create_item({"id": f"q{i}", "foodGroup": f"q{i % 3}", "rank": i})
    one = container.query_items("SELECT VALUE c.rank FROM c WHERE c.rank > @least ORDER BY c.rank", partition_key="q1",
                                parameters=[{"name": "@least", "value": 1}])
    assert list(one) == [4, 7]
    fails(400, "a query over all keys without leave", lambda: list(container.query_items(
        "SELECT VALUE c.rank FROM c WHERE c.rank > 1")))
    everywhere = {"enable_cross_partition_query": True}
    assert sorted(container.query_items("SELECT VALUE c.rank FROM c WHERE c.rank >= 0", max_item_count=3,
                                        **everywhere)) == list(range(10))
    assert list(container.query_items("SELECT VALUE c.rank FROM c WHERE c.rank >= 0 ORDER BY c.rank DESC", max_item_count=4,
                                      **everywhere)) == list(range(9, -1, -1))
    assert list(container.query_items("SELECT VALUE COUNT(1) FROM c WHERE c.rank >= 0", **everywhere)) == [10]
    pages = container.query_items("SELECT * FROM c WHERE c.rank >= 0", max_item_count=4, **everywhere).by_page()
    first = list(next(pages))
    assert len(first) == 4 and pages.continuation_token
    rest = container.query_items("SELECT * FROM c WHERE c.rank >= 0", max_item_count=4, **everywhere).by_page(
        pages.continuation_token)
    assert sum(len(list(p)) for p in rest) == 6
    by = [r for g in range(3) for r in range(9, -1, -1) if r % 3 == g]
    for order, want in ("c.foodGroup, c.rank DESC", by), ("c.foodGroup DESC, c.rank", by[::-1]):
        assert list(container.query_items(f"SELECT VALUE c.rank FROM c WHERE c.rank >= 0 ORDER BY {order}", max_item_count=4,
                                          populate_index_metrics=True, **everywhere)) == want
        assert "/rank DESC" in str(container.client_connection.last_response_headers["x-ms-cosmos-index-utilization"])
    fails(400, "an order without a composite index", lambda: list(container.query_items(
        "SELECT * FROM c ORDER BY c.foodGroup, c.rank", **everywhere)))
    assert len(list(container.read_all_items())) >= 10
    many = container.read_items([(f"q{i}", f"q{i % 3}") for i in range(10)])
    assert len(list(many)) == 10


MOVE = """function move(from, to, amount) {
    var items = getContext().getCollection(), account = {};
    [from, to].forEach(function (id) {
        items.readDocument(items.getAltLink() + "/docs/" + id, function (err, found) {
            if (err) throw err;
            account[id] = found;
            if (!account[from] || !account[to]) return;
            account[from].balance -= amount;
            account[to].balance += amount;
            [from, to].forEach(function (id) { items.replaceDocument(account[id]._self, account[id]); });
            if (account[from].balance < 0) throw new Error("there is not enough");
            console.log("moved %s", amount);
            getContext().getResponse().setBody(account[from].balance);
        });
    });
}"""


def scripts(container):
    for account, balance in (("a", 100), ("b", 0)):
        container.create_item({"id": account, "foodGroup": "bank", "balance": balance})

    def balances():
        return [container.read_item(account, "bank")["balance"] for account in ("a", "b")]

    own = container.scripts
    made = own.create_stored_procedure({"id": "move", "body": MOVE})
    left = own.execute_stored_procedure("move", partition_key="bank", params=["a", "b", 30], enable_script_logging=True)
    headers = container.client_connection.last_response_headers
    assert left == 70 and balances() == [70, 30], (left, balances())
    assert headers["x-ms-documentdb-script-log-results"] == "moved%2030", headers
    assert own.execute_stored_procedure(made, partition_key="bank", params=["b", "a", 10]) == 20
    fails(400, "a procedure that throws", lambda: own.execute_stored_procedure(
        "move", partition_key="bank", params=["a", "b", 1000]))
    assert balances() == [80, 20], "the changes of a procedure that threw are visible"
    fails(404, "a procedure that is not there", lambda: own.execute_stored_procedure("none", partition_key="bank"))

    own.create_trigger({"id": "stamp", "triggerType": "Pre", "triggerOperation": "Create", "body":
                        "function () { var r = getContext().getRequest(), b = r.getBody(); b.stamped = true; r.setBody(b); }"})
    own.create_trigger({"id": "refuse", "triggerType": "Post", "triggerOperation": "All", "body":
                        "function () { throw new Error('not today'); }"})
    assert container.create_item({"id": "c", "foodGroup": "bank"}, pre_trigger_include="stamp")["stamped"] is True
    fails(400, "a trigger that throws", lambda: container.create_item({"id": "d", "foodGroup": "bank"},
                                                                      post_trigger_include="refuse"))
    fails(404, "what a trigger has refused", lambda: container.read_item("d", "bank"))

    own.create_user_defined_function({"id": "twice", "body": "function (x) { return x * 2; }"})
    assert list(container.query_items("SELECT VALUE udf.twice(c.balance) FROM c WHERE IS_DEFINED(c.balance) ORDER BY c.id",
                                      partition_key="bank")) == [160, 40]


def feed(container):
    def changes(**options):
        found = [c["id"] for c in container.query_items_change_feed(max_item_count=2, **options)]
        return found, container.client_connection.last_response_headers["etag"]

    for id in ("1", "2", "3"):
        container.create_item({"id": id, "foodGroup": "feed", "n": 0})
    container.upsert_item({"id": "1", "foodGroup": "feed", "n": 1})
    container.delete_item("2", "feed")
    own, next_own = changes(start_time="Beginning", partition_key="feed")
    assert own == ["3", "1"], own
    everything, next_all = changes(start_time="Beginning")
    assert {"1", "3"} <= set(everything) and "2" not in everything[-2:], everything
    none, next_now = changes(start_time="Now")
    assert none == []
    container.upsert_item({"id": "3", "foodGroup": "feed", "n": 3})
    for token in (next_own, next_all, next_now):
        later, _ = changes(continuation=token)
        assert later == ["3"], later
    hour = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(hours=1)
    assert len(changes(start_time=hour)[0]) >= 2
    for feed_range in container.read_feed_ranges():
        assert "3" in changes(start_time="Beginning", feed_range=feed_range)[0]


def main():
    endpoint, key = sys.argv[1:3]
    database, container = resources(client := CosmosClient(endpoint, key))
    steps = {f.__name__: f for f in [items, keys, batches, queries, scripts, feed]}
    for step in (os.environ.get("STEPS") or ",".join(steps)).split(","):
        steps[step](container)
        print("ok", step)
    container.delete_all_items_by_partition_key("names")
    database.delete_container("foods")
    client.delete_database("py")
    print("azure-cosmos: all steps succeeded")


main()
