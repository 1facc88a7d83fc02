// SPDX-License-Identifier: Apache-2.0
//! The ScyllaDB driver for Rust: rust-driver HOST:PORT NODES. It treats a server that offers tablets-routing-v1 as
//! ScyllaDB and reads all metadata with USING TIMEOUT, so it cannot discover a cluster that rejects USING TIMEOUT.
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::response::query_result::QueryResult;
use scylla::statement::batch::{Batch, BatchType};
use std::collections::HashSet;
use std::error::Error;
use std::time::Duration;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn only<T: for<'a, 'b> scylla::deserialize::value::DeserializeValue<'a, 'b>>(r: QueryResult) -> Outcome<T> {
    Ok(r.into_rows_result()?.single_row::<(T,)>()?.0)
}

async fn refused(session: &Session, text: &str, why: &str) -> Outcome<()> {
    match session.query_unpaged(text, &[]).await {
        Ok(_) => Err(format!("{text} was accepted").into()),
        Err(e) if e.to_string().contains(why) => Ok(()),
        Err(e) => Err(format!("{text}: {e}, want {why}").into()),
    }
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().collect();
    let nodes: usize = args[2].parse()?;
    let session: Session = SessionBuilder::new().known_node(&args[1]).build().await?;

    session.query_unpaged("DROP KEYSPACE IF EXISTS compat_rust", &[]).await?;
    session
        .query_unpaged(
            "CREATE KEYSPACE compat_rust WITH replication = {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}",
            &[],
        )
        .await?;
    session.use_keyspace("compat_rust", false).await?;
    session.query_unpaged("CREATE TABLE t (k int PRIMARY KEY, v text)", &[]).await?;
    session.await_schema_agreement().await?;
    session.refresh_metadata().await?;

    // The driver knows all nodes and the schema.
    let state = session.get_cluster_state();
    assert_eq!(state.get_nodes_info().len(), nodes, "nodes");
    assert!(state.get_nodes_info().iter().all(|n| !n.host_id.is_nil()), "dummy metadata");
    let table = &state.get_keyspace("compat_rust").expect("the keyspace").tables["t"];
    assert_eq!(table.partition_key, ["k"]);
    assert_eq!(table.columns.len(), 2);

    // Prepared statements are routed, conditions and batches work, and USING TIMEOUT is accepted everywhere.
    let insert = session.prepare("INSERT INTO t (k, v) VALUES (?, ?) USING TIMEOUT 10s AND TTL ?").await?;
    for k in 0..200 {
        session.execute_unpaged(&insert, (k, format!("value {k}"), 1000)).await?;
    }
    let mut read = session.prepare("SELECT v FROM t WHERE k = ? USING TIMEOUT ?").await?;
    read.set_request_timeout(Some(Duration::from_secs(10)));
    let timeout = scylla::value::CqlDuration { months: 0, days: 0, nanoseconds: 10_000_000_000 };
    for k in 0..200 {
        assert_eq!(only::<String>(session.execute_unpaged(&read, (k, timeout)).await?)?, format!("value {k}"));
    }
    session.query_unpaged("UPDATE t USING TIMEOUT 10s AND TIMESTAMP 9999999999999999 SET v = 'new' WHERE k = 1", &[]).await?;
    session.query_unpaged("DELETE FROM t USING TIMEOUT 10s WHERE k = 2", &[]).await?;
    let mut batch = Batch::new(BatchType::Logged);
    batch.append_statement("INSERT INTO t (k, v) VALUES (1000, 'a')");
    batch.append_statement("INSERT INTO t (k, v) VALUES (1001, 'b')");
    session.batch(&batch, ((), ())).await?;
    session.query_unpaged("BEGIN BATCH USING TIMEOUT 10s INSERT INTO t (k) VALUES (1002); APPLY BATCH", &[]).await?;
    let count: i64 = only(session.query_unpaged("SELECT count(*) FROM t USING TIMEOUT 30s", &[]).await?)?;
    assert_eq!(count, 202);
    refused(&session, "SELECT * FROM t USING TIMEOUT 1d", "cannot contain months, weeks, or days").await?;

    // Every node gets requests.
    let mut asked = HashSet::new();
    for _ in 0..50 * nodes {
        asked.insert(only::<uuid::Uuid>(session.query_unpaged("SELECT host_id FROM system.local", &[]).await?)?);
    }
    assert_eq!(asked.len(), nodes, "nodes that were asked");
    session.query_unpaged("DROP KEYSPACE compat_rust", &[]).await?;
    println!("scylla (Rust): {nodes} nodes, {count} rows");
    Ok(())
}
