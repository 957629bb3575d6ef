FROM rust:1-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --bin postrider

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates zlib1g \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --no-create-home postrider
COPY --from=build /src/target/release/postrider /usr/local/bin/postrider
USER postrider
ENV POSTRIDER_HTTP_LISTEN=0.0.0.0:7678
EXPOSE 7678
ENTRYPOINT ["postrider"]
CMD ["run"]
