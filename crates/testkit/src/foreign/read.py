"""Reads the first records of a topic with software of others, and writes each as a line of JSON.

    read.py cloudevents         BROKERS TOPIC COUNT SECONDS FILE
    read.py avro|json|protobuf  BROKERS TOPIC COUNT SECONDS FILE REGISTRY_URL

CloudEvents are read by the SDK of that project, framed values by the deserializers of Confluent's client.
"""

import base64
import datetime
import importlib
import json
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition


def main(kind, brokers, topic, count, seconds, file, url=None):
    decode = cloud_event() if kind == "cloudevents" else framed_value(kind, url)
    with open(file, "w") as lines:
        for record in records(brokers, topic, int(count), float(seconds)):
            line = {"partition": record.partition(), "offset": record.offset(), "key": record.key()}
            print(json.dumps(line | decode(record), default=to_json), file=lines)


def records(brokers, topic, count, seconds):
    """The first records of all partitions. No group is joined and nothing is committed."""
    deadline = time.monotonic() + seconds
    # The library requires the name of a group.
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "reader", "enable.auto.commit": False})
    partitions = consumer.list_topics(topic, seconds).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    for read in range(count):
        while (record := consumer.poll(0.2)) is None:
            if time.monotonic() > deadline:
                sys.exit(f"read {read} of {count} records of {topic}")
        if record.error():
            sys.exit(f"cannot read {topic}: {record.error()}")
        yield record
    consumer.close()


def cloud_event():
    from cloudevents.core.bindings.kafka import KafkaMessage, from_binary, from_kafka, from_structured
    from cloudevents.core.formats.json import JSONFormat
    from cloudevents.core.v1.event import OPTIONAL_ATTRIBUTES, REQUIRED_ATTRIBUTES, CloudEvent

    class Event(CloudEvent):
        """Without a time if the record has none: the SDK takes the present one."""

        def __init__(self, attributes, data=None):
            has_time = "time" in attributes
            super().__init__(attributes, data)
            if not has_time:
                del self.get_attributes()["time"]

    def decode(record):
        headers = dict(record.headers() or [])
        message = KafkaMessage(headers, record.key(), record.value())
        # This is what the specification calls structured. The SDK's own detection looks for headers that begin
        # with ce_, which a structured record may have as well: both ways must lead to the same event.
        is_structured = headers.get("content-type", b"").lower().startswith(b"application/cloudevents")
        read = from_structured if is_structured else from_binary
        event, detected = (content(read(message, JSONFormat(), Event), is_structured) for read in [read, from_kafka])
        if event != detected:
            sys.exit(f"one record, two events: {event} by its content type, {detected} by its headers")
        attributes, data = event
        known = REQUIRED_ATTRIBUTES + OPTIONAL_ATTRIBUTES
        return {
            "mode": "structured" if is_structured else "binary",
            "attributes": {name: value for name, value in attributes.items() if name in known},
            "extensions": {name: value for name, value in attributes.items() if name not in known},
            "data": data,
        }

    return decode


def content(event, is_structured):
    """The attributes with extensions, and the data as bytes: if it is JSON, the SDK has parsed it."""
    from cloudevents.core.formats.json import JSONFormat

    attributes, data = event.get_attributes(), event.get_data()
    # In structured mode, data without a type is JSON.
    kind = attributes.get("datacontenttype", "application/json" if is_structured else "")
    if data is None or isinstance(data, bytes):
        return attributes, data
    if isinstance(data, str) and not JSONFormat.JSON_CONTENT_TYPE_PATTERN.match(kind):
        return attributes, data.encode()
    return attributes, json.dumps(data, separators=(",", ":")).encode()


def framed_value(kind, url):
    from confluent_kafka.schema_registry import SchemaRegistryClient, dual_schema_id_deserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    registry = SchemaRegistryClient({"url": url})

    def decode(record):
        line = {}

        # The client's own function, whose result is of interest too.
        def find_id(payload, context, found):
            rest = dual_schema_id_deserializer(payload, context, found)
            line.update(id=found.id, guid=found.guid, message_indexes=found.message_indexes)
            return rest

        if record.value() is None:
            return {"value": None}
        context = SerializationContext(record.topic(), MessageField.VALUE, record.headers())
        deserialize = deserializer(kind, registry, record, context, {"schema.id.deserializer": find_id})
        line["value"] = deserialize(record.value(), context)
        if kind == "protobuf":
            from google.protobuf import json_format

            line["message"] = line["value"].DESCRIPTOR.full_name
            line["value"] = json_format.MessageToDict(line["value"], preserving_proto_field_name=True)
        return line

    return decode


def deserializer(kind, registry, record, context, settings):
    if kind == "avro":
        from confluent_kafka.schema_registry.avro import AvroDeserializer

        return AvroDeserializer(registry, conf=settings)
    if kind == "json":
        from confluent_kafka.schema_registry.json_schema import JSONDeserializer

        return JSONDeserializer(None, schema_registry_client=registry, conf=settings)
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer

    return ProtobufDeserializer(message_class(registry, record, context), settings, registry)


def message_class(registry, record, context):
    """A class for the message that the record refers to: the deserializer wants to be given one."""
    from confluent_kafka.schema_registry import dual_schema_id_deserializer
    from confluent_kafka.schema_registry.serde import SchemaId
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    found = SchemaId("PROTOBUF")
    dual_schema_id_deserializer(record.value(), context, found)
    if found.guid is None:
        schema = registry.get_schema(found.id, fmt="serialized")
    else:
        schema = registry.get_schema_by_guid(str(found.guid), fmt="serialized")
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(schema.schema_str))
    pool = descriptor_pool.DescriptorPool()
    add_imports(pool, file.dependency)
    messages = list(pool.AddSerializedFile(file.SerializeToString()).message_types_by_name.values())
    for index in found.message_indexes:
        message = messages[index]
        messages = message.nested_types
    return message_factory.GetMessageClass(message)


def add_imports(pool, names):
    """Files of Google's, the only ones that a schema of the tests imports."""
    from google.protobuf import descriptor_pb2

    for name in names:
        module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
        file = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        add_imports(pool, file.dependency)
        pool.Add(file)


def to_json(value):
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime):
        # A fixed number of digits, because two SDKs must write the same instant in the same way.
        return value.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return str(value)


main(*sys.argv[1:])
