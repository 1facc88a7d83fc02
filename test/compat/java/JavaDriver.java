// SPDX-License-Identifier: Apache-2.0
// Runs the first steps of a Java application: java -cp JARS JavaDriver.java HOST PORT

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.AsyncResultSet;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BatchType;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.data.CqlVector;
import com.datastax.oss.driver.api.core.data.UdtValue;
import com.datastax.oss.driver.api.core.metadata.TokenMap;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import com.datastax.oss.driver.api.core.type.UserDefinedType;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletionStage;

public class JavaDriver {
  static final String KS = "compat_java";

  static void check(boolean ok, Object what) {
    if (!ok) {
      throw new AssertionError(what);
    }
  }

  static CqlSession connect(String host, int port, String version) {
    return CqlSession.builder()
        .addContactPoint(new InetSocketAddress(host, port))
        .withLocalDatacenter("datacenter1")
        .withConfigLoader(DriverConfigLoader.programmaticBuilder()
            .withString(DefaultDriverOption.PROTOCOL_VERSION, version)
            .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(10))
            .build())
        .build();
  }

  public static void main(String[] args) throws Exception {
    for (String version : List.of("V4", "V5")) {
      try (CqlSession session = connect(args[0], Integer.parseInt(args[1]), version)) {
        run(session, version);
      }
    }
    System.out.println("java driver, protocols v4 and v5: 10,000 rows paged, schema, tokens, batch, LWT, UDT, vectors, prepared after ALTER, tracing, errors");
    System.exit(0); // do not wait for the driver's quiet period
  }

  static void run(CqlSession session, String version) throws Exception {
    check(session.getContext().getProtocolVersion().name().equals(version), session.getContext().getProtocolVersion());
    session.execute("DROP KEYSPACE IF EXISTS " + KS);
    session.execute("CREATE KEYSPACE " + KS + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    session.execute("CREATE TABLE " + KS + ".wide (p text, c int, v text, tags set<text>, m map<text, int>, PRIMARY KEY (p, c)) WITH CLUSTERING ORDER BY (c DESC)");
    check(session.checkSchemaAgreement(), "no schema agreement");
    check(session.getMetadata().getKeyspace(KS).get().getTable("wide").isPresent(), "metadata has no table");

    PreparedStatement insert = session.prepare("INSERT INTO " + KS + ".wide (p, c, v, tags, m) VALUES (?, ?, ?, ?, ?)");
    List<CompletionStage<AsyncResultSet>> writes = new ArrayList<>();
    for (int i = 0; i < 10_000; i++) {
      writes.add(session.executeAsync(insert.bind("a", i, "value " + i, Set.of("x", "y"), Map.of("n", i))));
      if (writes.size() == 500) {
        for (CompletionStage<AsyncResultSet> w : writes) {
          w.toCompletableFuture().get();
        }
        writes.clear();
      }
    }
    int n = 0;
    PreparedStatement select = session.prepare("SELECT c, m FROM " + KS + ".wide WHERE p = ?");
    for (Row row : session.execute(select.bind("a").setPageSize(777))) {
      check(row.getInt("c") == 9_999 - n, row.getInt("c"));
      check(row.getMap("m", String.class, Integer.class).get("n") == 9_999 - n, n);
      n++;
    }
    check(n == 10_000, n);

    TokenMap tokens = session.getMetadata().getTokenMap().get();
    for (String key : List.of("a", "é", "Beef Products")) {
      session.execute(insert.boundStatementBuilder(key, 1).unset("v").build());
      Row row = session.execute("SELECT token(p) FROM " + KS + ".wide WHERE p = '" + key + "' LIMIT 1").one();
      check(row.getToken(0).equals(tokens.newToken(ByteBuffer.wrap(key.getBytes(StandardCharsets.UTF_8)))), key);
    }
    check(!tokens.getReplicas(KS, ByteBuffer.wrap("a".getBytes(StandardCharsets.UTF_8))).isEmpty(), "no replica for a token");

    session.execute(BatchStatement.newInstance(BatchType.LOGGED,
        insert.bind("b", 1, "batched", null, null), insert.bind("b", 2, "batched", null, null),
        SimpleStatement.newInstance("INSERT INTO " + KS + ".wide (p, c) VALUES (?, ?)", "b", 3)));
    check(session.execute("SELECT count(*) FROM " + KS + ".wide WHERE p = 'b'").one().getLong(0) == 3, "batch");

    String lwt = "INSERT INTO " + KS + ".wide (p, c, v) VALUES ('lwt', 1, 'x') IF NOT EXISTS";
    check(session.execute(lwt).wasApplied(), "first insert");
    ResultSet second = session.execute(session.prepare(lwt).bind());
    check(!second.wasApplied() && second.one().getString("v").equals("x"), "second insert");

    session.execute("CREATE TYPE " + KS + ".addr (street text, zip int)");
    session.execute("CREATE TABLE " + KS + ".people (id uuid PRIMARY KEY, home frozen<addr>)");
    UserDefinedType addr = session.getMetadata().getKeyspace(KS).get().getUserDefinedType("addr").get();
    UdtValue home = addr.newValue("x", 5);
    UUID me = UUID.randomUUID();
    session.execute(session.prepare("INSERT INTO " + KS + ".people (id, home) VALUES (:id, :home)").boundStatementBuilder().setUuid("id", me).setUdtValue("home", home).build());
    PreparedStatement all = session.prepare("SELECT * FROM " + KS + ".people WHERE id = ?");
    check(session.execute(all.bind(me)).one().getUdtValue("home").equals(home), "UDT");
    session.execute("ALTER TABLE " + KS + ".people ADD age int");
    session.execute("UPDATE " + KS + ".people SET age = 5 WHERE id = ?", me);
    Row widened = session.execute(all.bind(me)).one();
    check(widened.getUdtValue("home").equals(home), "a statement prepared before ALTER TABLE");
    check(widened.getColumnDefinitions().size() == 3 && widened.getInt("age") == 5, "the new column of a statement prepared before ALTER TABLE");

    session.execute("CREATE TABLE " + KS + ".vectors (k int PRIMARY KEY, f vector<float, 3>, x vector<text, 2>)");
    CqlVector<Float> near = CqlVector.newInstance(1f, 2.5f, -3f);
    CqlVector<String> words = CqlVector.newInstance("a", "");
    session.execute(session.prepare("INSERT INTO " + KS + ".vectors (k, f, x) VALUES (1, ?, ?)").bind(near, words));
    Row vectors = session.execute("SELECT f, x, similarity_cosine(f, [1, 2.5, -3]) AS s FROM " + KS + ".vectors").one();
    check(vectors.getVector("f", Float.class).equals(near) && vectors.getVector("x", String.class).equals(words), vectors.getFormattedContents());
    check(vectors.getFloat("s") == 1f, "similarity");

    ResultSet traced = session.execute(SimpleStatement.newInstance("SELECT * FROM " + KS + ".wide WHERE p = 'b'").setTracing(true));
    check(traced.getExecutionInfo().getQueryTrace().getEvents().stream().anyMatch(e -> e.getActivity().contains("physical partition")), "trace");

    try {
      session.execute("SELECT nosuch FROM " + KS + ".wide");
      check(false, "accepted a column that does not exist");
    } catch (InvalidQueryException e) {
      check(e.getMessage().contains("Undefined column name nosuch"), e);
    }
    session.execute("DROP KEYSPACE " + KS);
  }
}
