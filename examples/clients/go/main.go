package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
)

func main() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(ctx)
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// ... the business change, in the same transaction ...
		var id string
		err := tx.QueryRow(ctx,
			`SELECT postrider.enqueue(topic => $1, payload => $2,
			                          idempotency_key => $3, ordering_key => $4)`,
			"orders", map[string]int{"order": 17}, "order-17-placed/go", "customer-4").Scan(&id)
		if err == nil {
			fmt.Println(id)
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}
