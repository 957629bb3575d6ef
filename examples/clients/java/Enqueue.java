import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;

public class Enqueue {
    public static void main(String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(System.getenv("JDBC_URL"))) {
            connection.setAutoCommit(false);
            // ... the business change, in the same transaction ...
            String call = "SELECT postrider.enqueue(topic => ?, payload => ?::json, "
                + "idempotency_key => ?, ordering_key => ?)";
            try (PreparedStatement statement = connection.prepareStatement(call)) {
                statement.setString(1, "orders");
                statement.setString(2, "{\"order\": 17}");
                statement.setString(3, "order-17-placed/java");
                statement.setString(4, "customer-4");
                try (ResultSet result = statement.executeQuery()) {
                    result.next();
                    System.out.println(result.getString(1));
                }
            }
            connection.commit();
        }
    }
}
