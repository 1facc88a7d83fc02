// SPDX-License-Identifier: Apache-2.0
// Creates a container, writes items, and receives them through the change feed processor of the Azure Cosmos DB SDK for Java, which
// stores its position in a lease container: java -cp JARS CosmosApp.java ENDPOINT KEY

import com.azure.cosmos.*;
import com.azure.cosmos.models.*;
import com.azure.cosmos.util.CosmosPagedFlux;
import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;

public class CosmosApp {
  static final int ITEMS = 20;

  static void check(boolean ok, Object what) {
    if (!ok) {
      throw new AssertionError(what);
    }
  }

  public static void main(String[] args) throws Exception {
    CosmosAsyncClient client =
        new CosmosClientBuilder()
            .endpoint(args[0])
            .key(args[1])
            .gatewayMode()
            .consistencyLevel(ConsistencyLevel.SESSION)
            .contentResponseOnWriteEnabled(true)
            .buildAsyncClient();
    client.createDatabaseIfNotExists("compat").block();
    CosmosAsyncDatabase database = client.getDatabase("compat");
    database.createContainerIfNotExists("feed", "/k").block();
    database.createContainerIfNotExists("lease", "/id").block();
    CosmosAsyncContainer feed = database.getContainer("feed");
    check(feed.read().block().getProperties().getId().equals("feed"), "the container that was read has another ID");
    check(count(database.readAllContainers()) == 2, "the list of containers is not complete");

    Set<String> seen = ConcurrentHashMap.newKeySet();
    CountDownLatch left = new CountDownLatch(ITEMS);
    ChangeFeedProcessor processor =
        new ChangeFeedProcessorBuilder()
            .hostName("host")
            .feedContainer(feed)
            .leaseContainer(database.getContainer("lease"))
            .options(
                new ChangeFeedProcessorOptions().setStartFromBeginning(true).setFeedPollDelay(Duration.ofMillis(200)))
            .handleChanges(
                changes -> {
                  for (JsonNode change : changes) {
                    if (seen.add(change.get("id").asText())) {
                      left.countDown();
                    }
                  }
                })
            .buildChangeFeedProcessor();
    processor.start().block();
    for (int i = 0; i < ITEMS; i++) {
      feed.createItem(new HashMap<>(Map.of("id", "i" + i, "k", "k" + i % 3))).block();
    }
    check(left.await(60, TimeUnit.SECONDS), left.getCount() + " changes did not arrive");
    processor.stop().block();
    check(
        count(feed.queryItems("SELECT * FROM c WHERE c.k = 'k1'", new CosmosQueryRequestOptions(), JsonNode.class)) == 7,
        "the query does not return the items of the key");
    database.delete().block();
    client.close();
    System.out.println(ITEMS + " changes received");
    System.exit(0);
  }

  static <T> int count(CosmosPagedFlux<T> pages) {
    return pages.collectList().block().size();
  }
}
