import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Records what Java's regular expressions do, for the tests of the translation. With Java 25, in this folder:
 *
 * <pre>
 * java Record.java topics > topics.json
 * java Record.java properties > properties.json
 * </pre>
 */
public class Record {
    private static final String LONG = "order".repeat(400);

    /** A pattern, a replacement, and the values that are routed by them. */
    private static final String[][] ROUTERS = {
        // Debezium's default, and what its users write.
        {"(?<routedByValue>.*)", "outbox.event.${routedByValue}", "Order", "", "a b", "zoë-😀", "a\n", "\n", "a\rb",
            "a\u0085b", "a\u2028", "a\u2029b", "a\u000Bb", "a\u0000b", LONG},
        {"(.*)", "$1", "Order", "", "a\nb"},
        {"(.+)", "events.$1", "Order", "", "\n", "é"},
        {"^(.*)$", "$1.events", "Order", "", "a\n", "\n", "\r\n", "a\nb"},
        {"order", "orders", "order", "orders", "Order", "order\n", ""},
        {"order(.*)", "o$1", "order", "orders", "reorder", "order\n"},
        {"(.*)Event", "$1", "OrderEvent", "Event", "OrderEvents", "EventEvent"},
        {"com\\.acme\\.(.*)\\.v1", "acme.$1", "com.acme.Order.v1", "com.acme..v1", "com.acme.v1", "comXacme.a.v1"},
        {"com\\.acme\\.(.+)\\.v1", "acme.$1", "com.acme.Order.v1", "com.acme..v1"},
        {"(a)(b(.*)c)d", "$3-$2-$1", "abxcd", "abcd", "abcdcd"},
        {"(^)(.*)($)", "[$1$2$3]", "x", "", "x\n"},
        {"(?s)(.*)", "[$1]", "a\nb", "\r\n", ""},
        {"(?s)a(.+)z", "[$1]", "a\n\nz", "az"},
        {"(?d)(.*)", "[$1]", "a\rb", "a\nb", "a\u2028"},
        {"", "x", "", "a", "\n"},
        {".*", "all", "Order", "", "a\n"},
        {"(?:.*)", "$0$0", "ab"},
        // A whole match is needed, but the first match is replaced.
        {"a|ab", "x", "a", "ab", "b", "abc"},
        {"(a|ab)(c|bcd)?", "$1.$2", "a", "ab", "abcd", "ac", "abc"},
        {"(.*?)-?", "<$1>", "a-", "a", "-", ""},
        {"(.*?)(-.*)?", "<$1$2>", "a-b", "ab"},
        {".+a|.+b", "x", "zazb", "zza", "zbzb"},
        {".*?", "x", "abc", ""},
        {"(?:)|abc", "x", "abc", ""},
        {"(?:|a)b?", "x", "ab", "b", "a"},
        {"([^.]+)\\.([^.]+)(\\..*)?", "$2.$1", "a.b", "a.b.c.d", "a", "a..b"},
        {"(.*)\\.(.*)", "$2_$1", "a.b.c", "a", "."},
        {"(.*?)\\.(.*)", "$2_$1", "a.b.c", "a", "."},
        {"([a-z]+?)(\\d*)", "$1-$2", "abc12", "abc", "12"},
        {"(a?)(ab)?(abc)?", "$1/$2/$3", "abc", "aababc", "ab", ""},
        // Repetitions.
        {"a{2}", "x", "a", "aa", "aaa"},
        {"a{2,}", "x", "a", "aa", "aaaa"},
        {"a{1,2}?a*?", "<$0>", "aaa", "a"},
        {"(a{0})b", "<$1>", "b", "ab"},
        {"a{0,1}b", "x", "b", "ab", "aab"},
        {"(a|b)+", "$1", "ab", "ba", "abc"},
        {"(a|b)*?", "<$1>", "ab", ""},
        {"(ab)+(ab)", "$1$2x", "abab", "ababab", "ab"},
        {"([a-z]+\\.)+([a-z]+)", "$1$2", "com.acme.order", "a.b", "a"},
        {"(?:([a-z])-)?(.*)", "$1$2", "a-b", "ab", "-"},
        {"(😀|a)+x", "$1", "a😀x", "😀ax", "x"},
        {"a}b]", "x", "a}b]"},
        {"a\0b[\0]\\\0", "x", "a\0b\0\0", "ab"},
        {"(?:a{2}|b){2}", "x", "aab", "bb", "aaaa", "b"},
        // Characters, escapes and quotes.
        {"\\x41\\u0042\\x{43}\\0104\\e\\a\\f\\t\\cA", "x", "ABCD\u001B\u0007\f\t\u0001"},
        {"\\x{1F600}\\uD83D\\uDE00😀", "x", "😀😀😀"},
        {"\\0377\\0400\\07", "x", "\u00FF\u00200\u0007"},
        {"\\-\\_\\é\\😀\\ \\#", "x", "-_é😀 #"},
        {"\\Qa.b\\E(.*)", "$1", "a.bc", "axbc"},
        {"\\Q(.*)", "x", "(.*)", "abc"},
        {"a\\Q+\\E+", "x", "a++", "aa+"},
        {"[\\Qa-c^]\\E]+", "x", "a-c^]", "b"},
        {"\\Q\\E", "x", "", "E"},
        {"\\\\Q", "x", "\\Q"},
        {"\\d+\\w\\s", "x", "12a ", "1_\u000B", "\u0661a ", "1é ", "1a\u00A0"},
        {"\\D\\W\\S", "x", "\u0661éa", "1éa", "aaa", "😀-😀"},
        {"\\h+\\v+", "x", "\u00A0\u180E\u3000\n\u2028", " \u000B", "\u200B\n"},
        {"\\H\\V", "x", "ab", " b", "a\u0085"},
        {"(a\\R)b", "[$1]", "a\r\nb", "a\nb", "a\u0085b", "a\u000Cb", "a\n\nb"},
        {"\\R\\n", "x", "\r\n", "\n\n", "\r\n\n"},
        {"a.b", "x", "a\u000Bb", "a\nb", "a\rb", "a😀b", "a\u0085b", "a\u2029b", "ab"},
        // Ends.
        {"(.*)\\Z", "[$1]", "a", "a\n"},
        {"(.*)\\z", "[$1]", "a", "a\n"},
        {"(?s)(.*?)$", "[$1]", "a", "a\n", "a\r\n", "a\r", "a\u0085", "a\u2028", "a\n\n", "\n", "\r\n", "a\n\r", ""},
        {"(?s)(.*?$)", "[$1]", "a\n", "a\r\n"},
        {"(?s)(.*?)\\Z", "[$1]", "a\r\n", "a\u2029"},
        {"(?sd)(.*?)$", "[$1]", "a\n", "a\r\n", "a\r", "\n\n"},
        {"(?s).*?(\\r|$)", "[$1]", "a\r\n", "a\r", "a\n"},
        {"(?s)(.)$|(.*)", "[$1$2]", "a", "a\n", "ab"},
        {"^a$|^b$", "x", "a", "b", "a\n"},
        {"\\A(a)\\z|b", "<$1>", "a", "b"},
        {"a^b|.", "x", "ab", "a"},
        // Classes.
        {"[a-c&&b-d]+", "x", "bc", "a", "d", "b"},
        {"[a-z&&[^aeiou]]+", "x", "xyz", "xaz"},
        {"[^a-c&&b-d]+", "x", "ad", "b", "😀"},
        {"[a-z&&[def]&&e]+", "x", "e", "ee", "d"},
        {"[a[bc]-]+", "x", "abc-", "d"},
        {"[]a]+", "x", "]a", "b"},
        {"[^]a]+", "x", "bc", "]"},
        {"[a^]+", "x", "^a"},
        {"[\\w&&[^\\d]]+", "x", "abc_", "a1"},
        {"[\\w-.]+", "x", "a-b.c", "a+b"},
        {"[+--]+", "x", "+,-", "*"},
        {"[a&b]+", "x", "a&b"},
        {"[&]", "x", "&"},
        {"[$.|?*+(){}]+", "x", "$.|?*+(){}"},
        {"[\\[\\]\\\\^-]+", "x", "[]\\^-"},
        {"[\\x41-\\x{43}\\t]+", "x", "ABC\t", "D"},
        {"[à-ÿ😀-😎]+", "x", "é😃", "É"},
        {"[^\\n]", "x", "\r", "\n", "😀"},
        {"[[^a]b]+", "x", "bc", "a"},
        {"[a&&b]?", "x", "", "a"},
        {"[\\v]", "x", "\n", "v"},
        {"\\p{Alpha}\\p{Digit}\\p{Punct}", "x", "a1-", "é1-", "a\u06611"},
        {"\\p{Lu}\\pL\\P{L}\\p{IsLatin}\\p{IsAlphabetic}", "x", "Éa1zЖ", "ea1zЖ", "ÉaazЖ"},
        {"[\\p{L}&&[^\\p{Lu}]]+", "x", "éж", "É"},
        {"\\p{javaLowerCase}\\p{javaWhitespace}\\p{gc=Nd}\\p{sc=GREEK}", "x", "ß\u001F\u0661λ", "ß\u00A01λ"},
        {"\\p{IsHan}+\\p{script=Han}?", "x", "漢字", "かな"},
        // Flags.
        {"(?i)order", "x", "ORDER", "oRdEr", "öRDER"},
        {"(?i)straße", "x", "STRAßE", "STRASSE"},
        {"(?i)[k-s]+é", "x", "KsLé", "\u212Aé", "\u017Fé", "KÉ"},
        {"(?i)[^a]+", "x", "bc", "A", "a"},
        {"(?i)[^A-Y&&[b-z]]", "x", "z", "A", "Z", "b"},
        {"(?i)[Z-a]", "x", "z", "Z", "A", "a", "b", "_"},
        {"(?i)\\p{Lower}\\p{Lu}\\p{IsLowercase}", "x", "AaÉ", "1aa"},
        {"a(?i)b(?-i)c", "x", "aBc", "ABc", "aBC"},
        {"(?i:a)b|(?i)c|d", "x", "Ab", "AB", "C", "D"},
        {"(a(?i)b)c", "<$1>", "aBc", "aBC"},
        {"(?s-i:.)a", "x", "\na", "\nA"},
        {"(?x) a b # a comment\n (c) + ?  ", "<$1>", "abc", "abcc", "a b"},
        {"(?x)a\\ b[\\ c]|\\#", "x", "a bc", "a b ", "#"},
        {"(?x) a (?-x) b", "x", "a b", "ab"},
        {"(?x)a#b", "x", "a", "ab"},
        {"(?m)a.b", "x", "acb"},
        {"(?)a", "x", "a"},
        // Groups and replacements.
        {"(?<a1>.)(?<B>.)", "${B}${a1}", "xy"},
        {"(.)(.)(.)(.)(.)(.)(.)(.)(.)(.)(.)", "$11-$1-$10-$12-$01-$0", "abcdefghijk"},
        {"(a)|(b)", "[$1][$2]", "a", "b"},
        {"(.*)", "\\$1\\\\\\x\\😀$1", "a"},
        {"(.*)", "", "a", "a\n"},
        {"(.*)", "a.b-c_d {}", "x"},
        {"(.)", "$10", "a"},
        {"((a)|b)(c)?", "$1$2$3", "ac", "b"},
        {"(a)(?:b)(c)", "$2$1", "abc"},
        {"(x)?(.*)", "$1$1$2", "xy", "y", LONG},
        // Patterns that Java refuses.
        {"(", "x", ""}, {")", "x", ""}, {"a)", "x", ""}, {"(?:a", "x", ""}, {"[a", "x", ""}, {"[]", "x", ""}, {"[^]", "x", ""},
        {"[a&&", "x", ""}, {"*", "x", ""}, {"a**", "x", ""}, {"a+++", "x", ""}, {"(?i)*", "x", ""}, {"a|*", "x", ""},
        {"a{", "x", ""}, {"a{x}", "x", ""}, {"a{,2}", "x", ""}, {"a{2", "x", ""}, {"a{2,1}", "x", ""},
        {"a{99999999999}", "x", ""}, {"\\", "x", ""}, {"\\E", "x", ""}, {"\\y", "x", ""}, {"\\x4", "x", ""}, {"\\x{}", "x", ""},
        {"\\x{110000}", "x", ""}, {"\\u004", "x", ""}, {"\\08", "x", ""}, {"\\0", "x", ""}, {"\\c", "x", ""},
        {"\\p{Nonsense}", "x", ""}, {"\\p{IsNonsense}", "x", ""}, {"\\p{alpha}", "x", ""}, {"\\p{sc=Nonsense}", "x", ""},
        {"\\p{", "x", ""}, {"\\p", "x", ""}, {"[z-a]", "x", ""}, {"[a-\\d]", "x", ""}, {"[\\R]", "x", ""}, {"[\\z]", "x", ""},
        {"[a-", "x", ""}, {"(?<1>a)", "x", ""}, {"(?<a_b>a)", "x", ""}, {"(?<a>b)(?<a>c)", "x", ""}, {"(?<>a)", "x", ""},
        {"(?<a", "x", ""}, {"(?", "x", ""}, {"(?z)", "x", ""}, {"(?i", "x", ""}, {"(?P<a>b)", "x", ""}, {"(?'a'b)", "x", ""},
        // Replacements that Java refuses when a value matches.
        {".*", "$1", "a"}, {"(.*)", "$2", "a"}, {"(.*)", "$", "a"}, {"(.*)", "$a", "a"}, {"(.*)", "${", "a"}, {"(.*)", "${}", "a"},
        {"(.*)", "${a", "a"}, {"(.*)", "${a}", "a"}, {"(.*)", "${1}", "a"}, {"(?<a>.*)", "${a-b}", "a"}, {"(.*)", "a\\", "a"},
        {"(.*)", "$\u0661", "a"},
    };

    /** Properties, each with and without regard to case. */
    private static final List<String> PROPERTIES = List.of(
        "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Me", "Mc", "Nd", "Nl", "No", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cs", "Pd",
        "Ps", "Pe", "Pc", "Po", "Sm", "Sc", "Sk", "So", "Pi", "Pf", "L", "M", "N", "Z", "C", "P", "S", "LC", "LD", "L1", "all",
        "ASCII", "Alnum", "Alpha", "Blank", "Cntrl", "Digit", "Graph", "Lower", "Print", "Punct", "Space", "Upper", "XDigit",
        "javaLowerCase", "javaUpperCase", "javaTitleCase", "javaAlphabetic", "javaIdeographic", "javaDigit", "javaDefined",
        "javaLetter", "javaLetterOrDigit", "javaSpaceChar", "javaWhitespace", "javaISOControl", "gc=Lu", "General_Category=Sm",
        "IsLu", "IsASCII", "IsLowercase", "IsLower", "IsUppercase", "IsUpper", "IsTitlecase", "IsAlphabetic", "IsAlpha",
        "IsIdeographic", "IsLetter", "IsDigit", "IsAlnum", "IsPunctuation", "IsPunct", "IsControl", "IsCntrl", "IsWhiteSpace",
        "IsWhite_Space", "IsSpace", "IsBlank", "IsHexDigit", "IsHex_Digit", "IsXDigit", "IsGraph", "IsPrint", "IsAssigned",
        "IsJoinControl", "IsJoin_Control", "IsWord", "IsCommon", "IsInherited", "IsLatin", "Islatin", "sc=Latin", "script=GREEK",
        "IsGreek", "IsCyrillic", "IsArmenian", "IsHebrew", "IsArabic", "IsDevanagari", "IsBengali", "IsGurmukhi", "IsGujarati",
        "IsTamil", "IsTelugu", "IsKannada", "IsMalayalam", "IsSinhala", "IsThai", "IsLao", "IsTibetan", "IsMyanmar",
        "IsGeorgian", "IsHangul", "IsEthiopic", "IsKhmer", "IsMongolian", "IsHiragana", "IsKatakana", "IsBopomofo", "IsHan");

    public static void main(String[] arguments) {
        StringBuilder records = new StringBuilder();
        switch (arguments[0]) {
            case "topics" -> topics(records);
            case "properties" -> properties(records);
            default -> throw new IllegalArgumentException(arguments[0]);
        }
        System.out.println("[\n" + records.substring(0, records.length() - 2) + "\n]");
    }

    private static void topics(StringBuilder records) {
        for (String[] router : ROUTERS) {
            for (int at = 2; at < router.length; at++) {
                records.append("{\"regex\": ").append(json(router[0]));
                records.append(", \"replacement\": ").append(json(router[1]));
                records.append(", \"value\": ").append(json(router[at]));
                records.append(", \"topic\": ").append(json(topic(router[0], router[1], router[at]))).append("},\n");
            }
        }
    }

    /** What RegexRouter does; null if it throws an exception. */
    private static String topic(String regex, String replacement, String value) {
        try {
            Matcher matcher = Pattern.compile(regex).matcher(value);
            return matcher.matches() ? matcher.replaceFirst(replacement) : value;
        } catch (IllegalArgumentException | IndexOutOfBoundsException refused) {
            return null;
        }
    }

    /** How many characters have a property, and a checksum of them. Halves of surrogate pairs don't count. */
    private static void properties(StringBuilder records) {
        for (String property : PROPERTIES) {
            for (boolean ignoresCase : new boolean[] {false, true}) {
                Pattern pattern = Pattern.compile("\\p{" + property + "}", ignoresCase ? Pattern.CASE_INSENSITIVE : 0);
                Matcher matcher = pattern.matcher("");
                long count = 0;
                int checksum = 0;
                for (int code = 0; code <= Character.MAX_CODE_POINT; code++) {
                    boolean isCharacter = code < Character.MIN_SURROGATE || code > Character.MAX_SURROGATE;
                    if (isCharacter && matcher.reset(Character.toString(code)).matches()) {
                        count++;
                        checksum = checksum * 31 + code;
                    }
                }
                records.append("{\"property\": ").append(json(property)).append(", \"ignores_case\": ").append(ignoresCase);
                records.append(", \"count\": ").append(count);
                records.append(", \"checksum\": ").append(Integer.toUnsignedString(checksum)).append("},\n");
            }
        }
    }

    private static String json(String text) {
        if (text == null) {
            return "null";
        }
        StringBuilder json = new StringBuilder("\"");
        for (char unit : text.toCharArray()) {
            if (unit == '"' || unit == '\\') {
                json.append('\\').append(unit);
            } else if (unit < ' ' || unit > '~') {
                json.append(String.format("\\u%04x", (int) unit));
            } else {
                json.append(unit);
            }
        }
        return json.append('"').toString();
    }
}
