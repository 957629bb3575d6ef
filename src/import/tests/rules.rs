//! Single options: the lines that they become, and what is reported of them.

use super::imported;

const CONNECT: &str = "connector.class=io.debezium.connector.postgresql.PostgresConnector
plugin.name=pgoutput
database.hostname=db
topic.prefix=shop
table.include.list=public.outbox
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
producer.override.bootstrap.servers=kafka:9092
transforms=outbox
transforms.outbox.type=io.debezium.transforms.outbox.EventRouter
";

const SERVER: &str = "debezium.sink.type=kafka
debezium.sink.kafka.producer.bootstrap.servers=kafka:9092
debezium.source.connector.class=io.debezium.connector.postgresql.PostgresConnector
debezium.source.plugin.name=pgoutput
debezium.source.database.hostname=db
debezium.source.topic.prefix=shop
debezium.source.table.include.list=public.outbox
debezium.transforms=outbox
debezium.transforms.outbox.type=io.debezium.transforms.outbox.EventRouter
";

/// Adds lines to a file. A line of the configuration must begin with each of `toml`, and the report
/// must be exactly the lines that begin with `report`.
#[track_caller]
fn check(file: &str, more: &str, toml: &[&str], report: &[&str]) {
    let (found, findings) = imported(&format!("{file}{more}"), "x.properties");
    for line in toml {
        assert!(found.lines().any(|it| it.starts_with(line)), "{line} is not in\n{found}");
    }
    let findings: Vec<&str> = findings.lines().collect();
    assert_eq!(findings.len(), report.len(), "{findings:#?}");
    for (finding, expect) in findings.iter().zip(report) {
        assert!(finding.starts_with(expect), "{finding}\nis not\n{expect}");
    }
}

#[track_caller]
fn of_connect(more: &str, toml: &[&str], report: &[&str]) {
    check(CONNECT, more, toml, report);
}

#[track_caller]
fn of_server(more: &str, toml: &[&str], report: &[&str]) {
    check(SERVER, more, toml, report);
}

#[test]
fn nothing_is_reported_where_nothing_is_different() {
    of_connect("", &["profile = \"connect\"", "slot = \"debezium\"", "enabled = false"], &[]);
    of_server("", &["profile = \"server\"", "publication = \"dbz_publication\""], &[]);
    of_connect("name=a\ntasks.max=1\nerrors.tolerance=none\nhstore.handling.mode=JSON", &[], &[]);
}

#[test]
fn resources_as_kubectl_prints_them() {
    let list = "apiVersion: v1
kind: List
items:
- apiVersion: kafka.strimzi.io/v1
  kind: KafkaConnector
  metadata: {name: a, annotations: {config: '{}'}}
  spec:
    class: io.debezium.connector.postgresql.PostgresConnector
    config:
      transforms: o
      transforms.o.type: io.debezium.transforms.outbox.EventRouter
      database.port: ~
  status: {connectorStatus: {name: a}}
";
    let (toml, findings) = imported(list, "x");
    assert!(toml.contains("from a connector \"a\" of Kafka Connect"), "{toml}");
    assert!(!findings.contains("consumers:") && !findings.contains("database.port"), "{findings}");
    let json = "{\"kind\": \"KafkaConnector\", \"metadata\": {\"name\": \"a\"}, \"spec\": {
        \"class\": \"PostgresConnector\", \"config\": {\"transforms\": \"o\",
        \"transforms.o.type\": \"EventRouter\"}}}";
    assert_eq!(imported(json, "x").0, toml);
}

#[test]
fn converters_of_kafka_connect() {
    let json = "org.apache.kafka.connect.json.JsonConverter";
    of_connect(&format!("value.converter={json}"), &["value = \"json-with-schemas\""], &[]);
    let line = "value = \"json\"  # from value.converter, line 11; value.converter.schemas.enable, line 12";
    of_connect(
        &format!("value.converter={json}\nvalue.converter.schemas.enable=FALSE"),
        &[line],
        &[],
    );
    let header = format!("header.converter={json}\nheader.converter.schemas.enable=false");
    of_connect(&header, &["header = \"json\"", "\"__debezium.context.taskId\" = '\"0\"'"], &[]);
    of_connect(
        "header.converter=org.apache.kafka.connect.storage.StringConverter",
        &["header = \"simple\""],
        &["consumers: header.converter, line 11: simple is the nearest"],
    );
    of_connect(
        "key.converter=org.apache.kafka.connect.converters.LongConverter",
        &["key = []"],
        &[
            "consumers: key.converter, line 11: postrider has no counterpart of this converter; it has",
        ],
    );
    of_connect(
        "header.converter=org.apache.kafka.connect.converters.ByteArrayConverter",
        &["header = []"],
        &["consumers: header.converter, line 11: postrider has no counterpart"],
    );
    of_connect(
        &format!(
            "value.converter={json}\nvalue.converter.decimal.format=NUMERIC\n\
                  value.converter.replace.null.with.default=false\nvalue.converter.schemas.cache.size=9"
        ),
        &[],
        &[
            "consumers: value.converter.decimal.format, line 12: numeric columns are written in base64",
            "consumers: value.converter.replace.null.with.default, line 13: NULL in a column",
        ],
    );
    of_connect(
        "value.converter.encoding=UTF-16",
        &["value = \"string\""],
        &["consumers: value.converter.encoding, line 11: postrider does not have this option"],
    );
}

#[test]
fn formats_of_debezium_server() {
    of_server("", &["key = \"json-with-schemas\"", "header = \"json-with-schemas\""], &[]);
    of_server(
        "debezium.format.schemas.enable=false\ndebezium.format.key.schemas.enable=true",
        &["key = \"json-with-schemas\"", "value = \"json\"", "header = \"json\""],
        &[],
    );
    of_server(
        "debezium.format.value=binary\ndebezium.format.key=simplestring",
        &["value = \"bytes\"", "key = \"string\""],
        &[],
    );
    of_server("debezium.format.value=jsonbytearray", &["value = \"json-with-schemas\""], &[]);
    of_server("debezium.source.value.converter.schemas.enable=false", &["value = \"json\""], &[]);
    of_server(
        "debezium.format.value=clientprovided\n\
         debezium.format.value.class=org.apache.kafka.connect.storage.StringConverter",
        &["value = \"string\""],
        &[],
    );
    for format in ["avro", "protobuf", "cloudevents", "connect"] {
        of_server(
            &format!("debezium.format.value={format}"),
            &["value = []"],
            &["consumers: debezium.format.value, line 10: postrider has no counterpart"],
        );
    }
    of_server(
        "debezium.format.value.apicurio.registry.url=http://registry",
        &["value = []"],
        &["consumers: value.converter: postrider has no counterpart"],
    );
}

#[test]
fn the_routers_options() {
    let prefix = "transforms.outbox.";
    of_connect(
        &format!(
            "{prefix}route.by.field=kind\n{prefix}table.field.event.id=id\n\
                  {prefix}route.tombstone.on.empty.payload=true\n\
                  {prefix}table.expand.json.payload=False\n\
                  {prefix}table.json.payload.empty.array.behavior=optional_string\n\
                  {prefix}tracing.span.context.field=tracingspancontext\n\
                  {prefix}tracing.with.context.field.only=true"
        ),
        &[
            "\"route.by.field\" = \"kind\"  # from transforms.outbox.route.by.field, line 11",
            "\"route.tombstone.on.empty.payload\" = true",
            "\"tracing.span.context.field\" = \"tracingspancontext\"",
        ],
        &[
            "consumers: transforms.outbox.tracing.span.context.field, line 16: postrider makes no spans",
            "operators: transforms.outbox.table.json.payload.empty.array.behavior, line 15: without",
        ],
    );
    let expand = format!("{prefix}table.expand.json.payload=TRUE");
    let nulls = format!("{prefix}table.json.payload.null.behavior=optional_bytes");
    of_connect(
        &format!("{expand}\n{nulls}"),
        &["\"table.json.payload.null.behavior\" = \"optional_bytes\""],
        &[],
    );
    let (toml, _) = imported(&format!("{CONNECT}{prefix}table.field.event.id=id"), "x");
    assert!(!toml.contains("table.field.event.id"), "{toml}");
    of_connect(
        &format!("{prefix}table.fields.additional.error.on.missing=false"),
        &["\"table.field.additional.missing\" = \"ignore\""],
        &[],
    );
    of_connect(&format!("{prefix}table.fields.additional.error.on.missing=true"), &[], &[]);
    of_connect(
        &format!("{prefix}tracing.with.context.field.only=false\n{prefix}no.such=hunter2"),
        &[],
        &[
            "consumers: transforms.outbox.tracing.with.context.field.only, line 11: postrider makes no",
            "operators: transforms.outbox.no.such, line 12: the Outbox Event Router has no option no.such,",
        ],
    );
}

#[test]
fn tables() {
    of_connect(
        "table.include.list=public.a, public\\\\.b ,public.A",
        &["tables = [\"public.a\", \"public.b\"]"],
        &["operators: table.include.list, line 11: public.A is written as public.a"],
    );
    of_connect(
        "table.include.list=.*outbox",
        &["tables = []  # fill in: what .*outbox matches, table.include.list, line 11"],
        &["fill in: table.include.list, line 11: .*outbox is a regular expression"],
    );
    of_connect(
        "schema.include.list=public",
        &["tables = [\"public.outbox\"]"],
        &["operators: schema.include.list, line 11: postgres.tables names each table"],
    );
    let none = CONNECT.replace("table.include.list=public.outbox\n", "");
    let expect =
        "fill in: postgres.tables: table.include.list is not set, so the connector reads all";
    check(&none, "", &[], &[expect]);
    let expect =
        "fill in: postgres.tables: the connector's tables are those of schema.include.list";
    check(&none, "schema.include.list=public", &[], &[expect]);
}

#[test]
fn the_database() {
    of_connect(
        "database.user=a b@c\ndatabase.dbname=d/e\ndatabase.sslmode=prefer",
        &["url = \"postgres://a%20b%40c@db/d%2Fe\""],
        &[],
    );
    of_connect("database.hostname=::1", &["url = \"postgres://[::1]/\""], &[]);
    of_connect(
        "database.sslmode=allow",
        &["url = \"postgres://db/\""],
        &["operators: database.sslmode, line 11: postrider has no such mode"],
    );
    let none = CONNECT.replace("database.hostname=db\n", "");
    check(
        &none,
        "",
        &["url = \"postgres:///\"  # libpq's variables fill it in"],
        &["fill in: database.hostname: it is not set"],
    );
}

#[test]
fn the_client() {
    let prefix = "producer.override.";
    of_connect(
        &format!(
            "{prefix}compression.gzip.level=9\n{prefix}request.timeout.ms=20000\n\
                  {prefix}ssl.truststore.location=/x.jks\n{prefix}partitioner.class=\n\
                  {prefix}partitioner.ignore.keys=false\n{prefix}client.id=shop"
        ),
        &[
            "\"compression.level\" = \"9\"",
            "\"request.timeout.ms\" = \"20000\"",
            "\"client.id\" = \"shop\"",
        ],
        &["operators: producer.override.ssl.truststore.location, line 13: it has no effect with"],
    );
    of_connect(
        &format!(
            "{prefix}security.protocol=SASL_SSL\n{prefix}sasl.mechanism=OAUTHBEARER\n\
                  {prefix}sasl.oauthbearer.token.endpoint.url=https://idp/token\n\
                  {prefix}sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.\
                  OAuthBearerLoginModule required clientId=\"me\" clientSecret=\"hunter2\" scope=\"s\";"
        ),
        &[
            "\"sasl.oauthbearer.method\" = \"oidc\"",
            "\"sasl.oauthbearer.client.id\" = \"me\"",
            "\"sasl.oauthbearer.scope\" = \"s\"",
            "\"sasl.oauthbearer.token.endpoint.url\" = \"https://idp/token\"",
        ],
        &["fill in: producer.override.sasl.jaas.config, line 14: passwords are not copied: set \
           POSTRIDER_KAFKA_PROPERTIES_SASL_OAUTHBEARER_CLIENT_SECRET"],
    );
    of_connect(
        &format!(
            "{prefix}security.protocol=SASL_SSL\n{prefix}sasl.mechanism=GSSAPI\n\
                  {prefix}sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required;"
        ),
        &["\"sasl.mechanism\" = []"],
        &[
            "fill in: producer.override.sasl.mechanism, line 12: postrider has no SASL mechanism GSSAPI",
        ],
    );
    of_connect(
        &format!(
            "{prefix}security.protocol=SSL\n{prefix}ssl.truststore.type=PEM\n\
                  {prefix}ssl.truststore.location=/ca\n{prefix}ssl.keystore.type=PEM\n\
                  {prefix}ssl.keystore.location=/me\n{prefix}ssl.key.password=hunter2"
        ),
        &[
            "\"ssl.ca.location\" = \"/ca\"",
            "\"ssl.certificate.location\" = \"/me\"",
            "\"ssl.key.location\" = \"/me\"",
        ],
        &["fill in: producer.override.ssl.key.password, line 16: passwords are not copied"],
    );
    of_server(
        "debezium.sink.kafka.producer.key.serializer=io.example.Serializer\n\
         debezium.sink.kafka.producer.interceptor.classes=io.example.Interceptor",
        &[],
        &[
            "consumers: debezium.sink.kafka.producer.interceptor.classes, line 11: interceptors",
            "consumers: debezium.sink.kafka.producer.key.serializer, line 10: postrider does not run it",
        ],
    );
}

#[test]
fn context_headers() {
    let context = "\"__debezium.context.connectorLogicalName\" = \"shop\"";
    of_connect("", &["[route.headers]", context], &[]);
    for off in ["extended.headers.enabled=false", "extended.headers.enabled = False"] {
        let (toml, _) = imported(&format!("{CONNECT}{off}"), "x");
        assert!(!toml.contains("__debezium") && !toml.contains("route.headers"), "{toml}");
    }
}

#[test]
fn what_has_no_counterpart() {
    for (line, expect) in [
        ("snapshot.mode=initial", "operators: snapshot.mode, line 11: postrider continues where"),
        ("snapshot.mode=always", "consumers: snapshot.mode, line 11: rows are not published again"),
        ("snapshot.mode=when_needed", "operators: snapshot.mode, line 11: after a lost slot"),
        ("skipped.operations=u,d,t", "operators: skipped.operations, line 11: it has no effect"),
        ("skipped.operations=c,u", "consumers: skipped.operations, line 11: inserts"),
        (
            "column.truncate.to.20.chars=a",
            "consumers: column.truncate.to.20.chars, line 11: values",
        ),
        (
            "signal.data.collection=public.s",
            "operators: signal.data.collection, line 11: postrider",
        ),
        ("message.prefix.include.list=a", "consumers: message.prefix.include.list, line 11: mess"),
        (
            "database.tcpKeepAlive=true",
            "operators: database.tcpKeepAlive, line 11: it is for the Java",
        ),
        (
            "provide.transaction.metadata=true",
            "consumers: provide.transaction.metadata, line 11: the",
        ),
        (
            "plugin.name=decoderbufs",
            "operators: plugin.name, line 11: without plugin.name = pgoutput",
        ),
        ("no.such.option=1", "consumers: no.such.option, line 11: postrider does not know"),
    ] {
        of_connect(line, &[], &[expect]);
    }
    of_server("my.own=1", &[], &["operators: my.own, line 10: Debezium Server does not have it"]);
    of_server(
        "debezium.sink.redis.address=x",
        &[],
        &["operators: debezium.sink.redis.address, line 10"],
    );
}

/// It is written nevertheless: without it, events would go to other topics.
#[test]
fn a_regular_expression_that_only_java_can_run_is_reported() {
    let router = "transforms.outbox.route.topic";
    let file = format!("{CONNECT}{router}.regex=(?=shop)(.*)\n{router}.replacement=$1");
    let import = crate::import::import(&file, std::path::Path::new("x.properties")).unwrap();
    assert!(import.toml.contains("\"route.topic.regex\" = \"(?=shop)(.*)\""), "{}", import.toml);
    let findings: Vec<String> = import.findings.iter().map(ToString::to_string).collect();
    let expect = format!("consumers: {router}.regex, line 11: postrider does not start with it: ");
    assert!(findings.len() == 1 && findings[0].starts_with(&expect), "{findings:?}");
}
