// SPDX-License-Identifier: Apache-2.0
// A shop with the query builder, the schema builder, and the object mapper of the Java driver, whose annotation processor runs in
// javac: java -cp JARS:CLASSES compat.MapperApp HOST PORT

package compat;

import static com.datastax.oss.driver.api.querybuilder.QueryBuilder.*;
import static com.datastax.oss.driver.api.querybuilder.SchemaBuilder.*;

import com.datastax.oss.driver.api.core.*;
import com.datastax.oss.driver.api.core.cql.*;
import com.datastax.oss.driver.api.core.config.*;
import com.datastax.oss.driver.api.core.metadata.schema.*;
import com.datastax.oss.driver.api.core.type.DataTypes;
import com.datastax.oss.driver.api.core.uuid.Uuids;
import com.datastax.oss.driver.api.mapper.annotations.*;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.time.Instant;
import java.util.*;
import java.util.concurrent.CompletionStage;

public class MapperApp {
  static final String KEYSPACE = "compat_java_mapper";

  static void check(boolean ok, Object said) {
    if (!ok) {
      throw new AssertionError(said);
    }
  }

  public static void main(String[] args) throws Exception {
    DriverConfigLoader config =
        DriverConfigLoader.programmaticBuilder().withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(20)).build();
    try (CqlSession session =
        CqlSession.builder()
            .addContactPoint(new InetSocketAddress(args[0], Integer.parseInt(args[1])))
            .withLocalDatacenter("datacenter1")
            .withConfigLoader(config)
            .withClassLoader(MapperApp.class.getClassLoader())
            .build()) {
      session.execute(dropKeyspace(KEYSPACE).ifExists().build());
      session.execute(createKeyspace(KEYSPACE).ifNotExists().withSimpleStrategy(1).withDurableWrites(true).build());
      session.execute("USE " + KEYSPACE);
      build(session);
      map(session);
      metadata(session);
      session.execute(dropKeyspace(KEYSPACE).build());
      System.out.println("Java driver: schema builder, query builder, mapper with DAOs, conditions, async, metadata over protocol "
          + session.getContext().getProtocolVersion());
    }
  }

  static void build(CqlSession session) {
    session.execute(createType("dimensions").withField("length", DataTypes.INT).withField("width", DataTypes.INT).build());
    session.execute(
        createTable("product").withPartitionKey("id", DataTypes.UUID).withColumn("description", DataTypes.TEXT)
            .withColumn("dimensions", udt("dimensions", true)).withColumn("prices", DataTypes.mapOf(DataTypes.TEXT, DataTypes.DECIMAL))
            .withComment("what is sold").withGcGraceSeconds(100).withLZ4Compression().withCompaction(leveledCompactionStrategy()).build());
    session.execute(
        createTable("reading").withPartitionKey("sensor", DataTypes.TEXT).withClusteringColumn("at", DataTypes.TIMEUUID)
            .withStaticColumn("place", DataTypes.TEXT).withColumn("value", DataTypes.DOUBLE)
            .withColumn("tags", DataTypes.setOf(DataTypes.TEXT)).withClusteringOrder("at", com.datastax.oss.driver.api.core.metadata.schema.ClusteringOrder.DESC)
            .withDefaultTimeToLiveSeconds(86400).build());
    session.execute(createTable("hits").withPartitionKey("page", DataTypes.TEXT).withColumn("n", DataTypes.COUNTER).build());
    session.execute(createIndex("by_description").onTable("product").andColumn("description").build());
    session.execute(alterTable("reading").addColumn("note", DataTypes.TEXT).build());

    PreparedStatement insert =
        session.prepare(
            insertInto("reading").value("sensor", bindMarker()).value("at", bindMarker()).value("value", bindMarker())
                .value("tags", bindMarker()).usingTtl(bindMarker()).build());
    List<UUID> times = new ArrayList<>();
    for (int i = 0; i < 500; i++) {
      times.add(Uuids.timeBased());
      session.execute(insert.bind("s", times.get(i), i / 2.0, Set.of("a", "b" + i % 5), 3600).setPageSize(10));
    }
    Row best =
        session.execute(
            selectFrom("reading").countAll().as("n").function("max", com.datastax.oss.driver.api.querybuilder.select.Selector.column("value")).as("top")
                .whereColumn("sensor").isEqualTo(literal("s")).whereColumn("at").isGreaterThan(literal(times.get(99))).build()).one();
    check(best.getLong("n") == 400 && best.getDouble("top") == 249.5, best.getFormattedContents());
    int n = 0;
    double last = 1e9;
    for (Row row : session.execute(selectFrom("reading").all().whereColumn("sensor").isEqualTo(literal("s")).build().setPageSize(33))) {
      check(row.getDouble("value") < last, row.getFormattedContents());
      last = row.getDouble("value");
      n++;
    }
    check(n == 500, n);
    check(
        session.execute(selectFrom("reading").column("value").ttl("value").writeTime("value").whereColumn("sensor").isEqualTo(literal("s"))
            .whereColumn("tags").contains(literal("b3")).limit(7).allowFiltering().build()).all().size() == 7, "contains");
    session.execute(
        update("reading").setColumn("place", literal("roof")).whereColumn("sensor").isEqualTo(literal("s")).build());
    session.execute(
        update("reading").append("tags", literal(Set.of("new"))).whereColumn("sensor").isEqualTo(literal("s")).whereColumn("at").isEqualTo(literal(times.get(0))).build());
    Row first = session.execute(selectFrom("reading").all().whereColumn("sensor").isEqualTo(literal("s")).orderBy("at", com.datastax.oss.driver.api.core.metadata.schema.ClusteringOrder.ASC).limit(1).build()).one();
    check(first.getSet("tags", String.class).equals(Set.of("a", "b0", "new")) && first.getString("place").equals("roof"), first.getFormattedContents());
    session.execute(update("hits").increment("n", literal(5)).whereColumn("page").isEqualTo(literal("/")).build());
    check(session.execute(selectFrom("hits").column("n").build()).one().getLong(0) == 5, "counter");
    session.execute(deleteFrom("reading").whereColumn("sensor").isEqualTo(literal("s")).whereColumn("at").isLessThan(literal(times.get(250))).build());
    check(session.execute(selectFrom("reading").countAll().build()).one().getLong(0) == 250, "range deleted");
    BatchStatement batch =
        BatchStatement.newInstance(DefaultBatchType.LOGGED, insert.bind("b1", times.get(0), 1.0, Set.of(), 60), insert.bind("b2", times.get(0), 1.0, Set.of(), 60));
    check(session.execute(batch).wasApplied(), "batch");
    check(session.execute(selectFrom("reading").distinct().column("sensor").build()).all().size() == 3, "distinct");
  }

  static void map(CqlSession session) throws Exception {
    ProductDao dao = new MapperApp_InventoryBuilder(session).build().products(CqlIdentifier.fromCql(KEYSPACE));
    List<UUID> ids = new ArrayList<>();
    for (int i = 0; i < 10; i++) {
      ids.add(UUID.randomUUID());
      dao.save(new Product(ids.get(i), "product " + i % 2, new Dimensions(i, 2 * i), Map.of("EUR", new java.math.BigDecimal("1.50"))));
    }
    Product one = dao.byId(ids.get(3));
    check(one.getDimensions().getWidth() == 6 && one.getPrices().get("EUR").toString().equals("1.50"), one.getDescription());
    check(dao.described("product 1").all().size() == 5, "by an index");
    check(dao.all().all().size() == 10 && dao.count() == 10, "all");
    one.setDescription("changed");
    check(!dao.updateIf(one, "nothing").wasApplied() && dao.updateIf(one, "product 1").wasApplied(), "conditions");
    check(dao.insertNew(one) != null && dao.insertNew(new Product(UUID.randomUUID(), "new", null, null)) == null, "insert if not exists");
    check(dao.byIdLater(ids.get(3)).toCompletableFuture().get().getDescription().equals("changed"), "asynchronous");
    dao.delete(one);
    check(dao.byId(ids.get(3)) == null && dao.deleteById(ids.get(4)) && !dao.deleteById(ids.get(4)), "deleted");
  }

  static void metadata(CqlSession session) {
    KeyspaceMetadata keyspace = session.refreshSchema().getKeyspace(KEYSPACE).get();
    TableMetadata product = keyspace.getTable("product").get(), reading = keyspace.getTable("reading").get();
    check(product.getIndex("by_description").get().getTarget().equals("description"), product.getIndexes());
    check(reading.getClusteringColumns().toString().contains("DESC") && reading.getColumn("place").get().isStatic(), reading.describe(true));
    check(keyspace.getUserDefinedType("dimensions").isPresent(), "type");
    session.execute(dropTable("hits").build());
    // The driver's description recreates the keyspace.
    String text = keyspace.describeWithChildren(false);
    session.execute(dropKeyspace(KEYSPACE).build());
    for (String statement : text.split(";\\s*\n")) {
      if (!statement.isBlank()) {
        session.execute(statement.strip().replaceAll(";$", ""));
      }
    }
    check(session.refreshSchema().getKeyspace(KEYSPACE).get().describeWithChildren(false).replaceAll("\\s+", "").equals(text.replaceAll("\\s+", "")), text);
  }

  @Entity
  public static class Dimensions {
    private int length, width;

    public Dimensions() {}

    Dimensions(int length, int width) {
      this.length = length;
      this.width = width;
    }

    public int getLength() { return length; }
    public void setLength(int v) { length = v; }
    public int getWidth() { return width; }
    public void setWidth(int v) { width = v; }
  }

  @Entity
  @CqlName("product")
  public static class Product {
    @PartitionKey private UUID id;
    private String description;
    private Dimensions dimensions;
    private Map<String, java.math.BigDecimal> prices;

    public Product() {}

    Product(UUID id, String description, Dimensions dimensions, Map<String, java.math.BigDecimal> prices) {
      this.id = id;
      this.description = description;
      this.dimensions = dimensions;
      this.prices = prices;
    }

    public UUID getId() { return id; }
    public void setId(UUID v) { id = v; }
    public String getDescription() { return description; }
    public void setDescription(String v) { description = v; }
    public Dimensions getDimensions() { return dimensions; }
    public void setDimensions(Dimensions v) { dimensions = v; }
    public Map<String, java.math.BigDecimal> getPrices() { return prices; }
    public void setPrices(Map<String, java.math.BigDecimal> v) { prices = v; }
  }

  @Dao
  public interface ProductDao {
    @Insert void save(Product product);
    @Insert(ifNotExists = true) Product insertNew(Product product);
    @Select Product byId(UUID id);
    @Select CompletionStage<Product> byIdLater(UUID id);
    @Select PagingIterable<Product> all();
    @Select(customWhereClause = "description = :d") PagingIterable<Product> described(@CqlName("d") String description);
    @Query("SELECT count(*) FROM ${keyspaceId}.product") long count();
    @Update(customIfClause = "description = :old") ResultSet updateIf(Product product, @CqlName("old") String old);
    @Delete void delete(Product product);
    @Delete(entityClass = Product.class, ifExists = true) boolean deleteById(UUID id);
  }

  @Mapper
  @CqlName("inventory")
  public interface Inventory {
    @DaoFactory ProductDao products(@DaoKeyspace CqlIdentifier keyspace);
  }
}
