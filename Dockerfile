# The base images are named by tags, so that a build has the fixes that were published meanwhile. To have
# the same bytes in each build, pin both by digest, and let a bot raise it:
#   docker buildx imagetools inspect rust:1-slim-bookworm        # the line `Digest:`
#   FROM rust:1-slim-bookworm@sha256:… AS build
#
# The build: what scripts/setup asks for, less the servers. A C compiler comes with the base.
FROM rust:1-slim-bookworm AS build
RUN apt-get update \
 && apt-get install --yes --no-install-recommends cmake g++ libssl-dev make pkg-config zlib1g-dev \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src

# Dependencies change seldom, so they have a layer of their own, made with stubs of our code. Cargo
# wants to see every target that Cargo.toml names, also those that are not built.
COPY Cargo.toml Cargo.lock ./
RUN mkdir -p src tests/it examples/demo benches/throughput \
 && printf '//! A stub.\nfn main() {}\n' | tee src/main.rs tests/it/main.rs \
    examples/orders.rs examples/demo/main.rs benches/throughput/main.rs >/dev/null \
 && printf '//! A stub.\n' >src/lib.rs \
 && cargo build --release --locked --bin postrider

# The stubs are younger than the files that replace them, and Cargo goes by age.
COPY migrations migrations
COPY src src
RUN touch src/main.rs src/lib.rs \
 && cargo build --release --locked --bin postrider \
 && strip --strip-debug target/release/postrider

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates libssl3 zlib1g \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 7678 --no-create-home --shell /usr/sbin/nologin postrider
COPY --from=build /src/target/release/postrider /usr/local/bin/postrider
# By number, so that an orchestrator can see that it is not root.
USER 7678
# The default is loopback, which nobody outside of a container can reach.
ENV POSTRIDER_HTTP_LISTEN=0.0.0.0:7678
EXPOSE 7678
# No HEALTHCHECK: the image also runs commands that serve no HTTP. docker-compose.yml has one.
ENTRYPOINT ["postrider"]
CMD ["run"]
