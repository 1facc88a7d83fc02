// SPDX-License-Identifier: Apache-2.0
// People and their orders with Spring Data Cassandra, using repositories and templates: java -cp JARS:CLASSES compat.SpringApp HOST PORT

package compat;

import com.datastax.oss.driver.api.core.CqlSession;
import java.time.*;
import java.util.*;
import org.springframework.context.annotation.*;
import org.springframework.data.annotation.*;
import org.springframework.data.cassandra.config.*;
import org.springframework.data.cassandra.core.*;
import org.springframework.data.cassandra.core.cql.*;
import org.springframework.data.cassandra.core.mapping.*;
import org.springframework.data.cassandra.core.query.*;
import org.springframework.data.cassandra.core.query.Query;
import org.springframework.data.cassandra.repository.*;
import org.springframework.data.cassandra.repository.config.EnableCassandraRepositories;
import org.springframework.data.domain.*;

public class SpringApp {
  static final String KEYSPACE = "compat_spring";
  static String host;
  static int port;

  @Configuration
  @EnableCassandraRepositories(considerNestedRepositories = true, basePackageClasses = SpringApp.class)
  static class Config extends AbstractCassandraConfiguration {
    @Override protected String getKeyspaceName() { return KEYSPACE; }
    @Override protected String getContactPoints() { return host; }
    @Override protected int getPort() { return port; }
    @Override protected String getLocalDataCenter() { return "datacenter1"; }
    @Override public SchemaAction getSchemaAction() { return SchemaAction.RECREATE; }
    @Override public String[] getEntityBasePackages() { return new String[] {"compat"}; }
    @Override protected SessionBuilderConfigurer getSessionBuilderConfigurer() {
      return b -> b.withConfigLoader(com.datastax.oss.driver.api.core.config.DriverConfigLoader.programmaticBuilder()
          .withDuration(com.datastax.oss.driver.api.core.config.DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(20)).build());
    }

    @Override
    protected List<org.springframework.data.cassandra.core.cql.keyspace.CreateKeyspaceSpecification> getKeyspaceCreations() {
      return List.of(org.springframework.data.cassandra.core.cql.keyspace.CreateKeyspaceSpecification.createKeyspace(KEYSPACE).ifNotExists().withSimpleReplication(1));
    }
  }

  @UserDefinedType("address")
  public record Address(String street, String city) {}

  @Table("person")
  public static class Person {
    @Id UUID id;
    @Indexed String lastname;
    String firstname;
    int age;
    Address address;
    @CassandraType(type = CassandraType.Name.LIST, typeArguments = CassandraType.Name.TEXT) List<String> mails;
    Map<String, Integer> scores;
    LocalDate born;
    Instant seen;
    @Version Long version;

    public Person(UUID id, String lastname, String firstname, int age) {
      this.id = id;
      this.lastname = lastname;
      this.firstname = firstname;
      this.age = age;
    }
  }

  @PrimaryKeyClass
  public record OrderKey(
      @PrimaryKeyColumn(name = "customer", type = PrimaryKeyType.PARTITIONED) String customer,
      @PrimaryKeyColumn(name = "placed", type = PrimaryKeyType.CLUSTERED, ordering = Ordering.DESCENDING) Instant placed) {}

  @Table("orders")
  public record Order(@PrimaryKey OrderKey key, @Column("total") java.math.BigDecimal total) {}

  public interface People extends CassandraRepository<Person, UUID> {
    List<Person> findByLastname(String lastname);
    @AllowFiltering List<Person> findByAgeGreaterThan(int age);
    @org.springframework.data.cassandra.repository.Query("SELECT * FROM person WHERE lastname = ?0 AND age < ?1 ALLOW FILTERING") List<Person> younger(String lastname, int age);
    long countByLastname(String lastname);
  }

  public interface Orders extends MapIdCassandraRepository<Order> {
    List<Order> findByKeyCustomer(String customer);
    Slice<Order> findByKeyCustomerAndKeyPlacedAfter(String customer, Instant placed, Pageable page);
  }

  static void check(boolean ok, Object said) {
    if (!ok) {
      throw new AssertionError(said);
    }
  }

  public static void main(String[] args) {
    host = args[0];
    port = Integer.parseInt(args[1]);
    try (var context = new AnnotationConfigApplicationContext(Config.class)) {
      People people = context.getBean(People.class);
      CassandraTemplate template = (CassandraTemplate) context.getBean(CassandraAdminOperations.class);
      List<Person> all = new ArrayList<>();
      for (int i = 0; i < 20; i++) {
        Person p = new Person(UUID.randomUUID(), i % 2 == 0 ? "White" : "Pinkman", "n" + i, 20 + i);
        p.address = new Address("High St " + i, "Albuquerque");
        p.mails = List.of("a@x", "b@x");
        p.scores = Map.of("one", i);
        p.born = LocalDate.of(1960, 1, 1 + i);
        p.seen = Instant.ofEpochMilli(1700000000000L + i);
        all.add(p);
      }
      all = people.saveAll(all);
      check(people.count() == 20 && people.findByLastname("White").size() == 10 && people.countByLastname("Pinkman") == 10, "found");
      Person one = people.findById(all.get(3).id).get();
      check(one.address.equals(new Address("High St 3", "Albuquerque")) && one.mails.size() == 2 && one.scores.get("one") == 3 && one.born.getDayOfMonth() == 4 && one.seen.toEpochMilli() == 1700000000003L, one.address);
      check(people.findByAgeGreaterThan(30).size() == 9 && people.younger("White", 30).size() == 5, "filtered");
      Slice<Person> page = people.findAll(CassandraPageRequest.first(7));
      int n = page.getNumberOfElements();
      while (page.hasNext()) {
        page = people.findAll(page.nextPageable());
        n += page.getNumberOfElements();
      }
      check(n == 20, n);

      // Optimistic locking by version: a condition of the update.
      Person stale = people.findById(one.id).get();
      one.age = 99;
      people.save(one);
      try {
        people.save(stale);
        throw new AssertionError("an older version was saved");
      } catch (org.springframework.dao.OptimisticLockingFailureException e) {
        check(people.findById(one.id).get().age == 99, "lost");
      }

      var insert = InsertOptions.builder().withIfNotExists().ttl(60).build();
      Order order = new Order(new OrderKey("ada", Instant.ofEpochMilli(1)), new java.math.BigDecimal("10.5"));
      check(template.insert(order, insert).wasApplied() && !template.insert(order, insert).wasApplied(), "insert if not exists");
      for (int i = 2; i <= 30; i++) {
        template.insert(new Order(new OrderKey("ada", Instant.ofEpochMilli(i)), new java.math.BigDecimal(i)));
      }
      Orders orders = context.getBean(Orders.class);
      List<Order> hers = orders.findByKeyCustomer("ada");
      check(hers.size() == 30 && hers.get(0).key().placed().toEpochMilli() == 30 && hers.get(29).total().toString().equals("10.5"), hers.size());
      check(orders.findByKeyCustomerAndKeyPlacedAfter("ada", Instant.ofEpochMilli(20), CassandraPageRequest.first(4)).getNumberOfElements() == 4, "slice");
      check(template.select(Query.query(Criteria.where("key.customer").is("ada")).and(Criteria.where("key.placed").lt(Instant.ofEpochMilli(10))).sort(Sort.by("key.placed").ascending()), Order.class).size() == 9, "criteria");
      check(template.update(Query.query(Criteria.where("key.customer").is("ada")).and(Criteria.where("key.placed").is(Instant.ofEpochMilli(5))), Update.update("total", new java.math.BigDecimal("0.5")), Order.class), "update");
      template.batchOps().delete(hers.get(0)).insert(new Order(new OrderKey("bob", Instant.EPOCH), java.math.BigDecimal.ONE)).execute();
      check(orders.findByKeyCustomer("ada").size() == 29 && orders.findByKeyCustomer("bob").size() == 1, "batch");
      check(context.getBean(CqlOperations.class).queryForObject("SELECT count(*) FROM orders", Long.class) == 30, "count by CQL");
      people.deleteAll();
      check(people.count() == 0, "deleted");
      context.getBean(CqlOperations.class).execute("DROP KEYSPACE " + KEYSPACE);
    }
    System.out.println("Spring Data Cassandra: schema made, repositories, templates, pages, versions, conditions, batches");
  }
}
