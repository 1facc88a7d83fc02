# SPDX-License-Identifier: Apache-2.0
"""Runs full-text and hybrid searches with azure-cosmos: hybrid.py ENDPOINT KEY. Each query is executed by the server, and by
the SDK with the server's query plan, as for the service. Exits with 1 at the first wrong result."""
import sys

from azure.cosmos import CosmosClient, PartitionKey, exceptions
from azure.cosmos._execution_context import execution_dispatcher

client = CosmosClient(sys.argv[1], sys.argv[2])
database = client.create_database("hybrid-py")
texts = {"defaultLanguage": "en-US", "fullTextPaths": [{"path": "/text", "language": "en-US"}]}
vectors = {"vectorEmbeddings": [{"path": "/v", "dataType": "float32", "dimensions": 2, "distanceFunction": "euclidean"}]}
indexes = {"indexingMode": "consistent", "automatic": True, "includedPaths": [{"path": "/*"}],
           "excludedPaths": [{"path": "/v/*"}, {"path": '/"_etag"/?'}], "fullTextIndexes": [{"path": "/text"}]}
container = database.create_container("items", PartitionKey("/k"), full_text_policy=texts, vector_embedding_policy=vectors,
                                      indexing_policy=indexes)
properties = container.read()
assert properties["fullTextPolicy"] == texts, properties
assert properties["indexingPolicy"]["fullTextIndexes"] == [{"path": "/text"}], properties
print("ranges", len(list(container.read_feed_ranges())))
for i in range(60):
    text = "filler " * i + "bicycles" + (" mountain" if i % 20 == 3 else "")
    container.create_item({"id": str(i), "k": str(i % 12), "text": text, "v": [i, 0]})

original = execution_dispatcher._ProxyQueryExecutionContext.__init__


def planned(self, *args, **kwargs):
    original(self, *args, **kwargs)
    if "RANK" in str(self._query):
        self._create_execution_context_with_query_plan()


def ids(query, **options):
    return [item["id"] for item in container.query_items(query, **options)]


everywhere = {"enable_cross_partition_query": True}
words = [{"name": "@word", "value": "mountains"}]
near = [{"name": "@v", "value": [0, 0]}, {"name": "@word", "value": "mountain"}]
for plan in False, True:
    execution_dispatcher._ProxyQueryExecutionContext.__init__ = planned if plan else original
    assert sorted(ids("SELECT * FROM c WHERE FullTextContains(c.text, @word)", parameters=words, **everywhere)) == \
        ["23", "3", "43"]
    assert ids("SELECT TOP 4 * FROM c ORDER BY RANK FullTextScore(c.text, 'mountain', 'bicycle')", **everywhere) == \
        ["3", "23", "43", "0"], plan
    assert ids("SELECT * FROM c ORDER BY RANK FullTextScore(c.text, 'bicycle') OFFSET 1 LIMIT 2", **everywhere) == \
        ["1", "2"], plan
    assert ids("SELECT TOP 2 * FROM c WHERE FullTextContains(c.text, 'bicycle') ORDER BY RANK FullTextScore(c.text, @word)",
               parameters=words, partition_key="11") == ["23", "11"], plan
    found = ids("SELECT TOP 3 * FROM c ORDER BY RANK RRF(FullTextScore(c.text, @word), VectorDistance(c.v, @v), [2, 1])",
                parameters=near, **everywhere)
    assert found == ["3", "0", "1"], (plan, found)
    found = ids("SELECT TOP 2 c.id FROM c ORDER BY RANK RRF(FullTextScore(c.text, 'mountain'), FullTextScore(c.text, 'bicycle'))",
                max_item_count=1, **everywhere)
    assert found == ["3", "0"], (plan, found)
assert ids("SELECT TOP 2 * FROM c WHERE c.k = '11' ORDER BY RANK FullTextScore(c.text, 'mountain')",
           full_text_score_scope="Local", **everywhere) == ["23", "11"]
execution_dispatcher._ProxyQueryExecutionContext.__init__ = original
for query in ["SELECT FullTextScore(c.text, 'a') FROM c", "SELECT * FROM c ORDER BY RANK c.id",
              "SELECT * FROM c WHERE FullTextContains(c.text, {'term': 'a', 'distance': 7})"]:
    try:
        ids(query, **everywhere)
    except exceptions.CosmosHttpResponseError as e:
        assert e.status_code == 400, e
    else:
        raise AssertionError(query)
try:
    database.create_container("bad", PartitionKey("/k"), full_text_policy={"defaultLanguage": "tlh", "fullTextPaths": []})
except exceptions.CosmosHttpResponseError as e:
    assert e.status_code == 400 and "unsupported language" in e.http_error_message, e
else:
    raise AssertionError("a container with an unknown language")
client.delete_database("hybrid-py")
print("ok")
