import pg from "pg";

const client = new pg.Client(process.env.DATABASE_URL);
await client.connect();
try {
  await client.query("BEGIN");
  // ... the business change, in the same transaction ...
  const { rows } = await client.query(
    `SELECT postrider.enqueue(topic => $1, payload => $2::json,
                              idempotency_key => $3, ordering_key => $4) AS id`,
    ["orders", JSON.stringify({ order: 17 }), "order-17-placed/node", "customer-4"],
  );
  await client.query("COMMIT");
  console.log(rows[0].id);
} catch (error) {
  await client.query("ROLLBACK");
  throw error;
} finally {
  await client.end();
}
