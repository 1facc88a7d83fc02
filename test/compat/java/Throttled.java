// SPDX-License-Identifier: Apache-2.0
// Writes faster than the throughput of a table allows, waits for the requested time, and succeeds:
// java -cp JARS Throttled.java HOST PORT TABLE WRITES BYTES

package compat; // the driver treats classes without a package as its own

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.context.DriverContext;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.retry.RetryVerdict;
import com.datastax.oss.driver.api.core.servererrors.CoordinatorException;
import com.datastax.oss.driver.api.core.servererrors.OverloadedException;
import com.datastax.oss.driver.api.core.session.Request;
import com.datastax.oss.driver.internal.core.retry.DefaultRetryPolicy;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

public class Throttled {
  static final List<Integer> waits = Collections.synchronizedList(new ArrayList<>());

  /** Finds the wait time as the retry policy for Azure Cosmos DB does: a comma-separated part of the form name=value. */
  public static class BackOff extends DefaultRetryPolicy {
    public BackOff(DriverContext context, String profile) {
      super(context, profile);
    }

    @Override
    public RetryVerdict onErrorResponseVerdict(Request request, CoordinatorException error, int retries) {
      if (!(error instanceof OverloadedException) || retries >= 20) {
        return RetryVerdict.RETHROW;
      }
      for (String part : error.toString().split(",")) {
        String[] pair = part.split("=");
        if (pair.length == 2 && pair[0].trim().equals("RetryAfterMs")) {
          int wait = Integer.parseInt(pair[1]);
          waits.add(wait);
          try {
            Thread.sleep(wait);
          } catch (InterruptedException e) {
            return RetryVerdict.RETHROW;
          }
          return RetryVerdict.RETRY_SAME;
        }
      }
      return RetryVerdict.RETHROW;
    }
  }

  public static void main(String[] args) {
    int writes = Integer.parseInt(args[3]), size = Integer.parseInt(args[4]);
    DriverConfigLoader config =
        DriverConfigLoader.programmaticBuilder()
            .withString(DefaultDriverOption.REQUEST_CONSISTENCY, "LOCAL_QUORUM")
            .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(30))
            .withClass(DefaultDriverOption.RETRY_POLICY_CLASS, BackOff.class)
            .build();
    try (CqlSession session =
        CqlSession.builder()
            .addContactPoint(new InetSocketAddress(args[0], Integer.parseInt(args[1])))
            .withLocalDatacenter("datacenter1")
            .withConfigLoader(config)
            .withClassLoader(Throttled.class.getClassLoader())
            .build()) {
      PreparedStatement insert = session.prepare("INSERT INTO " + args[2] + " (k, v) VALUES (?, ?)");
      long began = System.nanoTime();
      for (long k = 0; k < writes; k++) {
        ResultSet done = session.execute(insert.bind(k, ByteBuffer.allocate(size)).setIdempotent(true));
        double charge = done.getExecutionInfo().getIncomingPayload().get("RequestCharge").duplicate().getDouble();
        if (charge != 50) {
          throw new AssertionError("a write costs " + charge);
        }
      }
      if (waits.isEmpty()) {
        throw new AssertionError("nothing was refused");
      }
      System.out.printf(
          "%d writes of 50 RU took %.2f s, with waits of %s ms%n", writes, (System.nanoTime() - began) / 1e9, waits);
    }
  }
}
