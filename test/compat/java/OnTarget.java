// SPDX-License-Identifier: Apache-2.0
// Writes and reads keys of the tables target.t0, target.t1, and so on, and checks the results: java -cp JARS OnTarget.java HOST PORT TABLES SECONDS

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import java.net.InetSocketAddress;
import java.time.Duration;

public class OnTarget {
  public static void main(String[] args) {
    int tables = Integer.parseInt(args[2]);
    DriverConfigLoader config =
        DriverConfigLoader.programmaticBuilder()
            .withString(DefaultDriverOption.REQUEST_CONSISTENCY, "LOCAL_QUORUM")
            .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(20))
            .build();
    try (CqlSession session =
        CqlSession.builder()
            .addContactPoint(new InetSocketAddress(args[0], Integer.parseInt(args[1])))
            .withLocalDatacenter("datacenter1")
            .withConfigLoader(config)
            .withKeyspace("target")
            .build()) {
      PreparedStatement[] writes = new PreparedStatement[tables], reads = new PreparedStatement[tables];
      for (int i = 0; i < tables; i++) {
        writes[i] = session.prepare("INSERT INTO t" + i + " (k, v) VALUES (?, ?)");
        reads[i] = session.prepare("SELECT v FROM t" + i + " WHERE k = ?");
      }
      long until = System.nanoTime() + (long) (Double.parseDouble(args[3]) * 1e9), k = 0;
      while (System.nanoTime() < until) {
        for (int i = 0; i < tables; i++) {
          k++;
          session.execute(writes[i].bind(k, k));
          long got = session.execute(reads[i].bind(k)).one().getLong("v");
          if (got != k) {
            throw new AssertionError("key " + k + " has " + got);
          }
        }
      }
      System.out.println(2 * k + " requests");
    }
  }
}
