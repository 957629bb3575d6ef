// Reads the first records of a topic with Kafka's own consumer and the deserializer of the CloudEvents SDK, and
// writes each event as a line of JSON, as the SDK understands it.
//
//   java -cp 'JARS/*' ReadCloudEvents.java BROKERS TOPIC COUNT SECONDS FILE

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.cloudevents.CloudEvent;
import io.cloudevents.kafka.CloudEventDeserializer;
import io.cloudevents.kafka.KafkaMessageFactory;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

class ReadCloudEvents {
    // A fixed number of digits, because two SDKs must write the same instant in the same way.
    private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("yyyy-MM-dd'T'HH:mm:ss.SSSSSSX");
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) {
        try (PrintWriter lines = new PrintWriter(Files.newBufferedWriter(Path.of(arguments[4])))) {
            read(arguments[0], arguments[1], Integer.parseInt(arguments[2]), Long.parseLong(arguments[3]), lines);
        } catch (Exception error) {
            // What matters is which causes there are, not where each was thrown.
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                System.err.println(cause);
            }
            System.exit(1);
        }
    }

    private static void read(String brokers, String topic, int count, long seconds, PrintWriter lines)
            throws IOException {
        Instant deadline = Instant.now().plusSeconds(seconds);
        // No group: all partitions are read from the beginning, and nothing is committed.
        Map<String, Object> properties = Map.of("bootstrap.servers", brokers);
        try (Consumer<byte[], CloudEvent> consumer = new KafkaConsumer<>(
                properties, new ByteArrayDeserializer(), new CloudEventDeserializer())) {
            List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
                    .map(partition -> new TopicPartition(topic, partition.partition())).toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            int read = 0;
            while (read < count) {
                if (Instant.now().isAfter(deadline)) {
                    throw new IllegalStateException("read " + read + " of " + count + " records of " + topic);
                }
                for (ConsumerRecord<byte[], CloudEvent> record : consumer.poll(Duration.ofMillis(200))) {
                    if (read < count) {
                        lines.println(JSON.writeValueAsString(line(record)));
                        read++;
                    }
                }
            }
        }
    }

    private static Map<String, Object> line(ConsumerRecord<byte[], CloudEvent> record) {
        CloudEvent event = record.value();
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("partition", record.partition());
        line.put("offset", record.offset());
        line.put("key", record.key());
        // Kafka's consumer gives no record without a value to a deserializer.
        if (event == null) {
            line.putAll(Map.of("mode", "none", "attributes", Map.of(), "extensions", Map.of()));
            return line;
        }
        // The deserializer does not report which mode it has found. This is how it decides.
        line.put("mode", KafkaMessageFactory.createReader(record.headers(), new byte[0])
                .getEncoding().name().toLowerCase(Locale.ROOT));
        Map<String, Object> attributes = new LinkedHashMap<>();
        for (String name : event.getAttributeNames()) {
            put(attributes, name, event.getAttribute(name));
        }
        line.put("attributes", attributes);
        Map<String, Object> extensions = new LinkedHashMap<>();
        for (String name : event.getExtensionNames()) {
            put(extensions, name, event.getExtension(name));
        }
        line.put("extensions", extensions);
        // Jackson writes bytes in base64.
        line.put("data", event.getData() == null ? null : event.getData().toBytes());
        return line;
    }

    private static void put(Map<String, Object> values, String name, Object value) {
        if (value instanceof OffsetDateTime time) {
            values.put(name, time.withOffsetSameInstant(ZoneOffset.UTC).format(TIME));
        } else if (value instanceof Number || value instanceof Boolean) {
            values.put(name, value);
        } else if (value != null) {
            values.put(name, value.toString());
        }
    }
}
