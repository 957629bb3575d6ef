//! Classes of characters by their properties: `\p{Alpha}`, `\p{Lu}`, `\p{IsLatin}`.
//!
//! POSIX's classes are those of ASCII. The others are Unicode's: the engine knows version 16, like
//! Java 25. Older versions of Java lack the characters that Unicode has got since.

use super::cursor::Mark;
use super::error::{RegexFault, TopicRouterError};
use super::parse::Parser;

/// Half a surrogate pair, which is not in any text here.
const NOTHING: &str = r"[^\x{0}-\x{10FFFF}]";
const CASED: &str = r"[\p{Lu}\p{Ll}\p{Lt}]";
const CASED_LIKE_JAVA: &str = r"[\p{Lowercase}\p{Uppercase}\p{Lt}]";
const WHITE_SPACE: &str = r"[\p{Z}\t-\r\x{85}]";
const LETTERS_OF_ASCII: &str = "[A-Za-z]";

const CATEGORIES: [&str; 36] = [
    "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Me", "Mc", "Nd", "Nl", "No", "Zs", "Zl", "Zp", "Cc",
    "Cf", "Co", "Pd", "Ps", "Pe", "Pc", "Po", "Sm", "Sc", "Sk", "So", "Pi", "Pf", "L", "M", "N",
    "Z", "C", "P", "S",
];

/// Those that people write today.
const SCRIPTS: [&str; 30] = [
    "COMMON",
    "INHERITED",
    "LATIN",
    "GREEK",
    "CYRILLIC",
    "ARMENIAN",
    "HEBREW",
    "ARABIC",
    "DEVANAGARI",
    "BENGALI",
    "GURMUKHI",
    "GUJARATI",
    "TAMIL",
    "TELUGU",
    "KANNADA",
    "MALAYALAM",
    "SINHALA",
    "THAI",
    "LAO",
    "TIBETAN",
    "MYANMAR",
    "GEORGIAN",
    "HANGUL",
    "ETHIOPIC",
    "KHMER",
    "MONGOLIAN",
    "HIRAGANA",
    "KATAKANA",
    "BOPOMOFO",
    "HAN",
];

impl Parser<'_> {
    /// After `\p` or `\P`, which was at `start`.
    pub(super) fn property(
        &mut self,
        start: Mark,
        is_complement: bool,
    ) -> Result<String, TopicRouterError> {
        let mut name = String::new();
        if self.cursor.take_if('{') {
            while let Some(char) = self.cursor.take_where(|char| char != '}') {
                name.push(char);
            }
            if !self.cursor.take_if('}') {
                return Err(self.cursor.fault(start, RegexFault::Property));
            }
        } else {
            name.extend(self.cursor.take_where(|char| char.is_ascii_alphabetic()));
        }
        let class = class(&name, self.flags.ignores_case);
        let class = class.map_err(|fault| self.cursor.fault(start, fault))?;
        Ok(if is_complement { format!("[^{class}]") } else { class })
    }
}

/// The characters with a property, in the syntax of the crate `regex`. Where case is ignored, Java
/// takes some properties for wider ones.
pub(super) fn class(name: &str, ignores_case: bool) -> Result<String, RegexFault> {
    let found = if let Some((kind, value)) = name.split_once('=') {
        match kind.to_ascii_lowercase().as_str() {
            "sc" | "script" => script(value),
            "gc" | "general_category" => of_java(value, ignores_case),
            "blk" | "block" => return Err(RegexFault::Block),
            _ => None,
        }
    } else if name.starts_with("In") {
        return Err(RegexFault::Block);
    } else if let Some(name) = name.strip_prefix("Is") {
        of_unicode(&name.to_ascii_uppercase(), ignores_case)
            .or_else(|| of_java(name, ignores_case))
            .or_else(|| script(name))
    } else {
        of_java(name, ignores_case)
    };
    found.ok_or(RegexFault::Property)
}

fn script(name: &str) -> Option<String> {
    let name = name.to_ascii_uppercase();
    SCRIPTS.contains(&name.as_str()).then(|| format!(r"\p{{sc={name}}}"))
}

/// What has `Is` before it in Java. Case does not matter in these names.
fn of_unicode(name: &str, ignores_case: bool) -> Option<String> {
    let class = match name {
        "LOWERCASE" | "LOWER" | "UPPERCASE" | "UPPER" | "TITLECASE" if ignores_case => {
            CASED_LIKE_JAVA
        }
        "LOWERCASE" | "LOWER" => r"\p{Lowercase}",
        "UPPERCASE" | "UPPER" => r"\p{Uppercase}",
        "TITLECASE" => r"\p{Lt}",
        "ALPHABETIC" | "ALPHA" => r"\p{Alphabetic}",
        "IDEOGRAPHIC" => r"\p{Ideographic}",
        "LETTER" => r"\p{L}",
        "DIGIT" => r"\p{Nd}",
        "ALNUM" => r"[\p{Alphabetic}\p{Nd}]",
        "PUNCTUATION" | "PUNCT" => r"\p{P}",
        "CONTROL" | "CNTRL" => r"\p{Cc}",
        "WHITESPACE" | "WHITE_SPACE" | "SPACE" => WHITE_SPACE,
        "BLANK" => r"[\p{Zs}\t]",
        "HEXDIGIT" | "HEX_DIGIT" | "XDIGIT" => r"[\p{Nd}A-Fa-f\x{FF21}-\x{FF26}\x{FF41}-\x{FF46}]",
        "GRAPH" => r"[^\p{Z}\p{Cc}\p{Cn}]",
        "PRINT" => r"[^\p{Zl}\p{Zp}\p{Cc}\p{Cn}]",
        "ASSIGNED" => r"[^\p{Cn}]",
        "JOINCONTROL" | "JOIN_CONTROL" => r"[\x{200C}\x{200D}]",
        "WORD" => r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}]",
        _ => return None,
    };
    Some(class.to_owned())
}

/// General categories, POSIX's classes, and the methods of `java.lang.Character`.
fn of_java(name: &str, ignores_case: bool) -> Option<String> {
    let class = match name {
        "Lu" | "Ll" | "Lt" if ignores_case => CASED,
        "Lower" | "Upper" if ignores_case => LETTERS_OF_ASCII,
        "javaLowerCase" | "javaUpperCase" | "javaTitleCase" if ignores_case => CASED_LIKE_JAVA,
        category if CATEGORIES.contains(&category) => return Some(format!(r"\p{{{category}}}")),
        "LC" => CASED,
        "LD" | "javaLetterOrDigit" => r"[\p{L}\p{Nd}]",
        "Cs" => NOTHING,
        "L1" => r"[\x{0}-\x{FF}]",
        "all" => r"[\x{0}-\x{10FFFF}]",
        "ASCII" => r"[\x{0}-\x{7F}]",
        "Alnum" => "[0-9A-Za-z]",
        "Alpha" => LETTERS_OF_ASCII,
        "Blank" => r"[\x20\t]",
        "Cntrl" => r"[\x{0}-\x{1F}\x{7F}]",
        "Digit" => "[0-9]",
        "Graph" => "[!-~]",
        "Lower" => "[a-z]",
        "Print" => r"[\x20-~]",
        "Punct" => "[!-/:-@\\[-`{-~]",
        "Space" => r"[\x20\t-\r]",
        "Upper" => "[A-Z]",
        "XDigit" => "[0-9A-Fa-f]",
        "javaLowerCase" => r"\p{Lowercase}",
        "javaUpperCase" => r"\p{Uppercase}",
        "javaTitleCase" => r"\p{Lt}",
        "javaAlphabetic" => r"\p{Alphabetic}",
        "javaIdeographic" => r"\p{Ideographic}",
        "javaDigit" => r"\p{Nd}",
        "javaDefined" => r"[^\p{Cn}]",
        "javaLetter" => r"\p{L}",
        "javaSpaceChar" => r"\p{Z}",
        "javaWhitespace" => r"[[\p{Z}--[\x{A0}\x{2007}\x{202F}]]\t-\r\x{1C}-\x{1F}]",
        "javaISOControl" => r"[\x{0}-\x{1F}\x{7F}-\x{9F}]",
        _ => return None,
    };
    Some(class.to_owned())
}
