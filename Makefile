# Names for commands. scripts/setup installs what a machine needs for them.
#
# KAFKA=real makes the demo use Apache Kafka. KAFKA=mock runs only the tests for which librdkafka's
# embedded broker is enough. If it is given on the command line, make passes it on to what it runs.

# A broker that is already running (TEST_BROKERS) is enough for the demo and the benchmark. Tests share
# it too, but many of them stop or secure a broker of their own.
with_kafka = $(if $(TEST_BROKERS),demo,kafka)

.PHONY: help demo test check bench compare-debezium setup

help:
	@echo 'make demo  [KAFKA=real]  see it work: throwaway servers, a crash in the middle, a summary'
	@echo 'make test  [KAFKA=mock]  all tests, on a real Postgres and a real Kafka'
	@echo 'make check               format, lints, and the form of the repository'
	@echo 'make bench               throughput and latency, with pg_recvlogical as the yardstick'
	@echo 'make compare-debezium [RECORD=1]'
	@echo '                         the real Debezium and postrider on the same rows, byte for byte'
	@echo 'make setup               install what the above need'

demo:
	scripts/setup $(if $(filter real,$(KAFKA)),$(with_kafka),demo)
	cargo build --release --locked --package postrider --package postrider-demo --bins
	cargo run --release --locked --package postrider-demo

# Tests spend most of their time waiting for servers, so two cores can run six of them at a time.
test: export RUST_TEST_THREADS ?= 6
test:
	scripts/setup test
	cargo test --release --locked --workspace $(if $(filter mock,$(KAFKA)),-- --skip real_kafka)

# With the release profile, so that librdkafka is built once for all commands.
check:
	cargo fmt --all --check
	cargo clippy --release --locked --workspace --all-targets -- -D warnings
	cargo clippy --release --locked --package postrider-outbox -- -D warnings
	cargo test --release --locked --workspace --test tidy

bench:
	scripts/setup $(with_kafka)
	cargo bench --locked --bench throughput

# RECORD=1 and CASES=NAME are passed on through the environment.
compare-debezium:
	scripts/setup compare
	cargo build --release --locked --package postrider --package postrider-compare --bins
	cargo run --release --locked --package postrider-compare

setup:
	scripts/setup test
