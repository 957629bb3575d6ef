# The base images are given by tags, so that each build gets the latest fixes. For reproducible builds, pin
# both by digest, and let a bot update the digests:
#   docker buildx imagetools inspect rust:1-slim-bookworm        # the line `Digest:`
#   FROM rust:1-slim-bookworm@sha256:… AS build
#
# The build needs what scripts/setup installs, except the servers. The base image has a C compiler.
FROM rust:1-slim-bookworm AS build
RUN apt-get update \
 && apt-get install --yes --no-install-recommends cmake g++ libssl-dev make pkg-config zlib1g-dev \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src

# Dependencies rarely change, so they have a layer of their own, made with stubs of our code. Cargo wants
# to see every package of the workspace and every target that a manifest names, even if it does not build them.
COPY Cargo.toml Cargo.lock ./
COPY crates/compare/Cargo.toml crates/compare/
COPY crates/core/Cargo.toml crates/core/
COPY crates/demo/Cargo.toml crates/demo/
COPY crates/outbox/Cargo.toml crates/outbox/
COPY crates/testkit/Cargo.toml crates/testkit/
RUN mkdir -p src tests/it tests/tidy examples benches/throughput crates/compare/src crates/core/src \
    crates/demo/src \
    crates/outbox/src crates/testkit/src \
 && printf '//! A stub.\nfn main() {}\n' | tee src/main.rs tests/it/main.rs tests/tidy/main.rs \
    examples/embedded.rs examples/orders.rs benches/throughput/main.rs crates/compare/src/main.rs \
    crates/demo/src/main.rs >/dev/null \
 && printf '//! A stub.\n' | tee src/lib.rs crates/core/src/lib.rs crates/outbox/src/lib.rs \
    crates/testkit/src/lib.rs >/dev/null \
 && cargo build --release --locked --bin postrider

# The stubs are newer than the files that replace them, and Cargo goes by modification time.
COPY migrations migrations
COPY crates/core crates/core
COPY crates/outbox crates/outbox
COPY src src
RUN touch src/main.rs src/lib.rs crates/core/src/lib.rs crates/outbox/src/lib.rs \
 && cargo build --release --locked --bin postrider \
 && strip --strip-debug target/release/postrider

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates libssl3 zlib1g \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 7678 --no-create-home --shell /usr/sbin/nologin postrider
COPY --from=build /src/target/release/postrider /usr/local/bin/postrider
# By number, so that an orchestrator can verify that it is not root.
USER 7678
# The default is loopback, which can't be reached from outside the container.
ENV POSTRIDER_HTTP_LISTEN=0.0.0.0:7678
EXPOSE 7678
# No HEALTHCHECK, because the image also runs commands that serve no HTTP. docker-compose.yml has one.
ENTRYPOINT ["postrider"]
CMD ["run"]
