import json
import os

import psycopg

with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
    with connection.transaction(), connection.cursor() as cursor:
        # ... the business change, in the same transaction ...
        cursor.execute(
            """SELECT postrider.enqueue(topic => %s, payload => %s::json,
                                        idempotency_key => %s, ordering_key => %s)""",
            ("orders", json.dumps({"order": 17}), "order-17-placed/python", "customer-4"),
        )
        print(cursor.fetchone()[0])
