//! The parameters that a call repeats in headers.

use super::*;
use crate::outcome::HeaderFault;

fn answer(tools: &str, next: &str) -> Message {
    let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{tools}]{next}}}}}"#);
    Message::parse(Bytes::from(text)).expect("a response")
}

fn tool(name: &str, properties: &str) -> String {
    format!(r#"{{"name":"{name}","inputSchema":{{"type":"object","properties":{{{properties}}}}}}}"#)
}

fn learnt(tools: &str) -> ToolHeaders {
    let mut headers = ToolHeaders::default();
    assert_eq!(headers.learn(&answer(tools, "")), Page::Last);
    assert!(headers.is_complete());
    headers
}

fn call(name: &str, arguments: &str) -> Message {
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{name}","arguments":{arguments}}}}}"#
    );
    Message::parse(Bytes::from(text)).expect("a request")
}

/// `None` passes; else what is wrong.
fn checked(tools: &ToolHeaders, fields: &[(&str, &str)], message: &Message) -> Option<HeaderFault> {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
    }
    match tools.check(&headers, message) {
        Ok(()) => None,
        Err(Outcome::HeaderMismatch { fault, .. }) => Some(fault),
        Err(other) => panic!("{other:?}"),
    }
}

const DIFFERS: Option<HeaderFault> = Some(HeaderFault::Differs);
const MALFORMED: Option<HeaderFault> = Some(HeaderFault::Malformed);
const MISSING: Option<HeaderFault> = Some(HeaderFault::Missing);
const TWICE: Option<HeaderFault> = Some(HeaderFault::Twice);

/// 2026-07-28, transports, value encoding and server behavior for custom headers.
#[test]
fn a_header_says_what_the_argument_says() {
    let tools = learnt(&tool("sql", r#""region":{"type":"string","x-mcp-header":"Region"},"query":{"type":"string"}"#));
    for (header, value, expected) in [
        (Some("us-west1"), Some(r#""us-west1""#), None),
        (Some(" us-west1\t"), Some(r#""us-west1""#), None),
        (Some("us-west1"), Some(r#""us\u002dwest1""#), None),
        (Some("US-WEST1"), Some(r#""us-west1""#), DIFFERS),
        (Some(""), Some(r#""""#), None),
        (Some("=?base64?SGVsbG8=?="), Some(r#""Hello""#), None),
        (Some("=?base64?IHBhZGRlZCA=?="), Some(r#"" padded ""#), None),
        (Some("=?base64?SGVsbG8?="), Some(r#""Hello""#), MALFORMED),
        (Some("=?base64?SGVs!!!bG8=?="), Some(r#""Hello""#), MALFORMED),
        // Without both marks it is what it is.
        (Some("SGVsbG8="), Some(r#""SGVsbG8=""#), None),
        (Some("=?base64?SGVsbG8="), Some(r#""=?base64?SGVsbG8=""#), None),
        (Some("SGVsbG8="), Some(r#""Hello""#), DIFFERS),
        (Some("caf\u{e9}"), Some("\"caf\u{e9}\""), MALFORMED),
        // There is a header if there is a value.
        (None, Some(r#""us-west1""#), MISSING),
        (None, Some("null"), None),
        (None, None, None),
        (Some("us-west1"), Some("null"), DIFFERS),
        (Some("null"), Some("null"), DIFFERS),
        (Some("us-west1"), None, DIFFERS),
        // Other types than the schema's are compared as they are; the app will refuse them.
        (Some("1"), Some("1"), None),
        (Some("true"), Some("true"), None),
        (Some("True"), Some("true"), DIFFERS),
        (Some("1"), Some(r#""1""#), None),
        (Some("1.0"), Some(r#""1""#), DIFFERS),
        (None, Some("{}"), None),
        (Some("{}"), Some("{}"), DIFFERS),
        (Some("[]"), Some("[]"), DIFFERS),
    ] {
        let arguments =
            value.map_or_else(|| r#"{"query":"x"}"#.to_owned(), |value| format!(r#"{{"query":"x","region":{value}}}"#));
        let fields: Vec<_> = header.map(|value| ("Mcp-Param-REGION", value)).into_iter().collect();
        assert_eq!(checked(&tools, &fields, &call("sql", &arguments)), expected, "{header:?} {value:?}");
    }
    let message = call("sql", r#"{"region":"a"}"#);
    let right = ("mcp-param-region", "a");
    assert_eq!(checked(&tools, &[right, right], &message), TWICE);
    // Headers that no schema names are none of our business.
    assert_eq!(checked(&tools, &[right, ("mcp-param-query", "y"), ("mcp-param-z", "\u{e9}")], &message), None);
    // The app might take the other one.
    assert_eq!(checked(&tools, &[right], &call("sql", r#"{"region":"a","region":"b"}"#)), DIFFERS);
    assert_eq!(checked(&tools, &[right], &call("sql", r#"{"region":"b","\u0072egion":"a"}"#)), DIFFERS);
}

/// 2026-07-28, transports, server validation: integers are compared as numbers.
#[test]
fn numbers_are_compared_as_numbers() {
    let tools = learnt(&tool("n", r#""n":{"type":"integer","x-mcp-header":"N"}"#));
    for (header, value, equal) in [
        ("42", "42", true),
        ("42.0", "42", true),
        ("42", "42.0", true),
        ("42", "4.2e1", true),
        ("-7", "-7", true),
        ("0", "-0", true),
        ("1.5", "1.5", true),
        ("42", "43", false),
        ("0x2a", "42", false),
        ("042", "42", false),
        ("+42", "42", false),
        ("", "42", false),
        ("9007199254740991", "9007199254740991", true),
        ("9007199254740992", "9007199254740993", false),
        ("9007199254740993", "9007199254740993", true),
        ("1e400", "1e400", true),
        ("NaN", "0", false),
        ("=?base64?NDI=?=", "42", true),
    ] {
        let message = call("n", &format!(r#"{{"n":{value}}}"#));
        let found = checked(&tools, &[("mcp-param-n", header)], &message);
        assert_eq!(found, if equal { None } else { DIFFERS }, "{header} {value}");
    }
}

#[test]
fn parameters_may_lie_deeper() {
    let tools = learnt(&tool(
        "deep",
        r#""a":{"type":"object","properties":{"b":{"type":"string","x-mcp-header":"B"},"properties":{"type":"boolean","x-mcp-header":"C"}}},"c":{"type":"string","x-mcp-header":"D"}"#,
    ));
    let right = [("mcp-param-b", "1"), ("mcp-param-c", "true"), ("mcp-param-d", "x")];
    let message = call("deep", r#"{"c":"x","a":{"b":"1","properties":true,"z":[]},"b":"other"}"#);
    assert_eq!(checked(&tools, &right, &message), None);
    for at in 0..3 {
        let mut fields = right.to_vec();
        fields.remove(at);
        assert_eq!(checked(&tools, &fields, &message), MISSING, "{at}");
    }
    assert_eq!(checked(&tools, &right[2..], &call("deep", r#"{"c":"x","a":"b"}"#)), None);
    assert_eq!(checked(&tools, &right[2..], &call("deep", r#"{"c":"x","a":null}"#)), None);
    assert_eq!(checked(&tools, &right[2..], &call("deep", r#"{"c":"x","a":{"b":"1","b":"2"}}"#)), DIFFERS);
    assert_eq!(checked(&tools, &right, &call("deep", "7")), DIFFERS);
    assert_eq!(checked(&tools, &[], &call("deep", "null")), None);
}

/// 2026-07-28, transports, schema extension: clients leave out such tools, and no others.
#[test]
fn a_tool_that_breaks_a_rule_is_not_checked() {
    let good = tool("good", r#""a":{"type":"string","x-mcp-header":"A"}"#);
    for properties in [
        r#""a":{"type":"string","x-mcp-header":""}"#,
        r#""a":{"type":"string","x-mcp-header":"A B"}"#,
        r#""a":{"type":"string","x-mcp-header":"A\r\nB"}"#,
        r#""a":{"type":"string","x-mcp-header":"\u00e9"}"#,
        r#""a":{"type":"string","x-mcp-header":1}"#,
        r#""a":{"type":"string","x-mcp-header":null}"#,
        r#""a":{"type":"object","x-mcp-header":"A"}"#,
        r#""a":{"type":"array","x-mcp-header":"A"}"#,
        r#""a":{"type":["string","null"],"x-mcp-header":"A"}"#,
        r#""a":{"x-mcp-header":"A"}"#,
        r#""a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}"#,
        r#""a":{"type":"string","x-mcp-header":"A","x-mcp-header":"B"}"#,
    ] {
        let tools = learnt(&format!("{},{good},{{}},7", tool("bad", properties)));
        assert_eq!(checked(&tools, &[], &call("bad", r#"{"a":"x","b":"y"}"#)), None, "{properties}");
        assert_eq!(checked(&tools, &[], &call("good", r#"{"a":"x"}"#)), MISSING, "{properties}");
    }
    let root = r#"{"name":"bad","inputSchema":{"type":"string","x-mcp-header":"A"}}"#;
    assert_eq!(checked(&learnt(root), &[("mcp-param-a", "x")], &call("bad", "{}")), None);
    // An annotation where no chain of `properties` leads is not one that a call keeps to; and this is no annotation.
    for properties in [
        r#""a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}"#,
        r#""a":{"anyOf":[{"type":"string","x-mcp-header":"A"}]}"#,
        r#""x-mcp-header":{"type":"string"}"#,
        r#""a":true"#,
    ] {
        assert_eq!(checked(&learnt(&tool("t", properties)), &[], &call("t", r#"{"a":["x"]}"#)), None, "{properties}");
    }
}

#[test]
fn what_is_not_known_is_not_checked() {
    let message = call("t", r#"{"a":"x"}"#);
    let annotated = tool("t", r#""a":{"type":"string","x-mcp-header":"A"}"#);
    let mut tools = ToolHeaders::default();
    assert_eq!((checked(&tools, &[], &message), tools.is_complete()), (None, false));
    // Page by page.
    assert_eq!(tools.learn(&answer(&annotated, r#","nextCursor":"c2""#)), Page::More("c2".into()));
    assert_eq!((checked(&tools, &[], &message), tools.is_complete()), (MISSING, false));
    assert_eq!(tools.learn(&answer(&tool("other", ""), "")), Page::Last);
    assert_eq!((checked(&tools, &[], &message), tools.is_complete()), (MISSING, true));
    // Another tool, another method, parameters of another shape.
    assert_eq!(checked(&tools, &[], &call("u", r#"{"a":"x"}"#)), None);
    for text in [
        r#"{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"t","arguments":{"a":"x"}}}"#,
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"t","arguments":{"a":"x"}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":1,"arguments":{"a":"x"}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#,
    ] {
        let message = Message::parse(Bytes::copy_from_slice(text.as_bytes())).expect("a message");
        assert_eq!(checked(&tools, &[], &message), None, "{text}");
    }
    // A newer list says otherwise.
    assert_eq!(tools.learn(&answer(&tool("t", r#""a":{"type":"string"}"#), "")), Page::Last);
    assert_eq!(checked(&tools, &[], &message), None);
    assert_eq!(tools.learn(&answer(&annotated, "")), Page::Last);
    tools.clear();
    assert_eq!((checked(&tools, &[], &message), tools.is_complete()), (None, false));
    for text in [
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":""}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"tools":{}}}"#,
    ] {
        let message = Message::parse(Bytes::copy_from_slice(text.as_bytes())).expect("a message");
        assert_eq!((tools.learn(&message), tools.is_complete()), (Page::Unreadable, false), "{text}");
    }
}

#[test]
fn what_is_kept_of_an_app_has_a_bound() {
    let mut tools = ToolHeaders::default();
    let long = "p".repeat(60_000);
    for number in 0..100 {
        let properties = format!(r#""{long}":{{"type":"string","x-mcp-header":"A"}}"#);
        assert_eq!(tools.learn(&answer(&tool(&format!("t{number}"), &properties), "")), Page::Last);
    }
    let with = |name: &str| checked(&tools, &[], &call(name, &format!(r#"{{"{long}":"x"}}"#)));
    assert_eq!((with("t0"), with("t99")), (MISSING, None));
    // Nor does depth cost more than it may.
    let (open, close) = (r#"{"properties":{"a":"#.repeat(20_000), "}}".repeat(20_000));
    let schema = format!(r#"{open}{{"type":"string","x-mcp-header":"A"}}{close}"#);
    let deep = learnt(&format!(r#"{{"name":"d","inputSchema":{schema}}}"#));
    assert_eq!(checked(&deep, &[], &call("d", r#"{"a":{"a":{}}}"#)), None);
}
