//! The page for people.

use serde_json::Value;

const STYLE: &str = "body{font:16px sans-serif;margin:2em}th{text-align:left;padding-right:2em}";

/// One table for each relay, with its name as a heading if it has one.
pub(super) fn page<'a>(relays: impl Iterator<Item = (Option<&'a str>, Value)>) -> String {
    let tables: String = relays
        .map(|(name, status)| {
            let heading = name.map(|name| format!("<h2>{}</h2>", escape(name)));
            format!("{}<table>{}</table>", heading.unwrap_or_default(), rows(&status))
        })
        .collect();
    format!(
        "<!doctype html><meta charset=utf-8><title>postrider</title><style>{STYLE}</style>\
         <h1>postrider</h1>{tables}\
         <p><a href=/status>status</a> · <a href=/metrics>metrics</a> · <a href=/readyz>ready?</a>"
    )
}

fn rows(status: &Value) -> String {
    let fields = status.as_object().into_iter().flatten();
    fields
        .map(|(name, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("<tr><th>{}</th><td>{}</td></tr>", escape(name), escape(&value))
        })
        .collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_for_each_relay() {
        let one = page([(None, json!({ "slot": "<s>", "lag": 1 }))].into_iter());
        assert!(one.contains("<h1>postrider</h1><table><tr>"), "{one}");
        assert!(one.contains("<tr><th>lag</th><td>1</td></tr>"), "{one}");
        assert!(one.contains("<tr><th>slot</th><td>&lt;s&gt;</td></tr>"), "{one}");
        let two = page(["a", "b"].map(|name| (Some(name), json!({}))).into_iter());
        assert!(two.contains("<h2>a</h2><table></table><h2>b</h2><table></table>"), "{two}");
    }
}
