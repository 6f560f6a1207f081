//! Which parameters of a tool does a call repeat in headers?
//!
//! Owns what the schemas of an app's tools say of it (2026-07-28, transports, custom headers from tool parameters), and
//! whether a call keeps to it. Does not own when the app is asked for its tools: until it was, and where its list says
//! nothing of a tool, nothing is checked.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use http::{HeaderMap, HeaderName};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{encoded, field};
use crate::message::{Message, Name};
use crate::outcome::{HeaderFault, Outcome};

/// How much text is kept, in bytes. Tools beyond it are not checked.
const MAX_BYTES: usize = 1 << 20;
/// How deep in a schema a parameter may lie. Tools with deeper objects are not checked.
const MAX_DEPTH: usize = 16;

/// The parameters of an app's tools that calls repeat in headers.
///
/// Make one from all the pages of one `tools/list`, then put it in the place of the one before. When the app says that its tools
/// have changed, [`clear`](Self::clear) the one in use.
#[derive(Clone, Debug, Default)]
pub struct ToolHeaders {
    bytes: usize,
    complete: bool,
    tools: BTreeMap<Box<str>, Vec<Repeated>>,
}

/// What an answer to `tools/list` was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Page {
    /// The last page of the list.
    Last,
    /// There is more behind this cursor.
    More(Box<str>),
    /// No list of tools.
    Unreadable,
}

/// A parameter and its header.
#[derive(Clone, Debug)]
struct Repeated {
    header: HeaderName,
    /// The names that lead to it through the arguments.
    path: Vec<Box<str>>,
}

impl ToolHeaders {
    /// Forgets everything: the list has changed, or is read anew.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether the last page of the list has been learnt.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.complete
    }

    /// Takes in one page: the app's answer to `tools/list`. A tool whose schema breaks a rule of the annotation is left out, as
    /// clients have to leave it out; it takes no other tool with it.
    pub fn learn(&mut self, answer: &Message) -> Page {
        #[derive(Deserialize)]
        struct Answer<'a> {
            #[serde(borrow)]
            result: List<'a>,
        }
        #[derive(Deserialize)]
        struct List<'a> {
            #[serde(borrow)]
            tools: Vec<&'a RawValue>,
            #[serde(rename = "nextCursor")]
            next: Option<Box<str>>,
        }
        let Ok(Answer { result }) = serde_json::from_slice(answer.raw()) else { return Page::Unreadable };
        for tool in result.tools {
            self.learn_tool(tool);
        }
        self.complete = result.next.is_none();
        result.next.map_or(Page::Last, Page::More)
    }

    fn learn_tool(&mut self, tool: &RawValue) {
        #[derive(Deserialize)]
        struct Tool<'a> {
            name: Box<str>,
            #[serde(borrow, rename = "inputSchema")]
            schema: &'a RawValue,
        }
        let Ok(Tool { name, schema }) = serde_json::from_str(tool.get()) else { return };
        if let Some(earlier) = self.tools.remove(&name) {
            self.bytes -= size(&name, &earlier);
        }
        let mut found = Vec::new();
        if collect(schema, &mut Vec::new(), &mut found).is_err() || found.is_empty() {
            return;
        }
        let bytes = self.bytes + size(&name, &found);
        if bytes <= MAX_BYTES {
            self.bytes = bytes;
            self.tools.insert(name, found);
        }
    }

    /// Checks the headers of a `tools/call`. Other messages pass, and so do tools of which nothing is known.
    ///
    /// # Errors
    ///
    /// [`Outcome::HeaderMismatch`] for a header that is missing where the arguments have a value, is there where they have
    /// none, comes twice, is badly encoded or says something else.
    pub fn check(&self, headers: &HeaderMap, message: &Message) -> Result<(), Outcome> {
        #[derive(Deserialize)]
        struct Call<'a> {
            name: Box<str>,
            #[serde(borrow)]
            arguments: Option<&'a RawValue>,
        }
        if self.tools.is_empty() || message.as_request().is_none_or(|request| request.method != "tools/call") {
            return Ok(());
        }
        let Ok(call) = message.params::<Call<'_>>() else { return Ok(()) };
        let Some(repeated) = self.tools.get(&call.name) else { return Ok(()) };
        let mut values = vec![None; repeated.len()];
        if let Some(arguments) = call.arguments {
            let wanted: Vec<_> = repeated.iter().map(|repeated| &*repeated.path).enumerate().collect();
            find(arguments, &wanted, &mut values).map_err(|at| mismatch(&repeated[at], HeaderFault::Differs))?;
        }
        for (repeated, value) in repeated.iter().zip(values) {
            agrees(headers, &repeated.header, value).map_err(|fault| mismatch(repeated, fault))?;
        }
        Ok(())
    }
}

fn mismatch(repeated: &Repeated, fault: HeaderFault) -> Outcome {
    Outcome::HeaderMismatch { name: repeated.header.as_str().into(), fault }
}

fn size(name: &str, repeated: &[Repeated]) -> usize {
    let each = |repeated: &Repeated| {
        repeated.header.as_str().len()
            + repeated.path.iter().map(|name| name.len() + size_of::<Box<str>>()).sum::<usize>()
    };
    name.len() + repeated.iter().map(each).sum::<usize>()
}

/// A schema that breaks a rule of the annotation.
struct Invalid;

/// Collects the annotated parameters that are reached through `properties` alone; no others may be annotated.
fn collect<'a>(schema: &'a RawValue, path: &mut Vec<Box<str>>, found: &mut Vec<Repeated>) -> Result<(), Invalid> {
    let Ok(Members(members)) = serde_json::from_str::<Members<'a>>(schema.get()) else {
        // `true` and `false` are schemas too.
        return if schema.get().starts_with('{') { Err(Invalid) } else { Ok(()) };
    };
    let member = |name: &str| members.iter().find(|(Name(found), _)| found == name).map(|(_, value)| *value);
    if let Some(annotation) = member("x-mcp-header") {
        let name: Box<str> = serde_json::from_str(annotation.get()).map_err(|_| Invalid)?;
        let kind: Option<Box<str>> = member("type").and_then(|kind| serde_json::from_str(kind.get()).ok());
        // `number` is not allowed there, but real clients repeat numbers all the same.
        if path.is_empty() || !matches!(kind.as_deref(), Some("boolean" | "integer" | "number" | "string")) {
            return Err(Invalid);
        }
        if name.is_empty() {
            return Err(Invalid);
        }
        let header = HeaderName::from_bytes(format!("mcp-param-{name}").as_bytes()).map_err(|_| Invalid)?;
        if found.iter().any(|earlier| earlier.header == header) {
            return Err(Invalid);
        }
        found.push(Repeated { header, path: path.clone() });
    }
    let Some(properties) = member("properties") else { return Ok(()) };
    if path.len() == MAX_DEPTH {
        return Err(Invalid);
    }
    let Members(properties) = serde_json::from_str(properties.get()).map_err(|_| Invalid)?;
    for (Name(name), schema) in properties {
        path.push(name.as_ref().into());
        collect(schema, path, found)?;
        path.pop();
    }
    Ok(())
}

/// Finds the values at the ends of these paths; each object on the way is read once. `Err` is one of those that an object has
/// twice or could have, so that the app might read another value than we do.
fn find<'a>(
    object: &'a RawValue,
    wanted: &[(usize, &[Box<str>])],
    values: &mut [Option<&'a RawValue>],
) -> Result<(), usize> {
    let Ok(Members(members)) = serde_json::from_str::<Members<'a>>(object.get()) else {
        return match wanted.first() {
            Some((at, _)) if object.get().starts_with('{') => Err(*at),
            _ => Ok(()),
        };
    };
    for (Name(name), value) in members {
        let mut below = Vec::new();
        for (at, path) in wanted {
            match path {
                [last] if **last == *name => values[*at] = Some(value),
                [first, rest @ ..] if **first == *name && !rest.is_empty() => below.push((*at, rest)),
                _ => {}
            }
        }
        if !below.is_empty() {
            find(value, &below, values)?;
        }
    }
    Ok(())
}

/// Whether a header says what the arguments say. `null`, objects and arrays are nothing that a header could say.
fn agrees(headers: &HeaderMap, name: &HeaderName, value: Option<&RawValue>) -> Result<(), HeaderFault> {
    let header = field::single(headers, name.clone()).map_err(|_| HeaderFault::Twice)?;
    let value = value.map(RawValue::get).filter(|value| !value.starts_with(['n', '{', '[']));
    let (header, value) = match (header, value) {
        (None, None) => return Ok(()),
        (None, Some(_)) => return Err(HeaderFault::Missing),
        (Some(_), None) => return Err(HeaderFault::Differs),
        (Some(header), Some(value)) => (encoded::decode(header).ok_or(HeaderFault::Malformed)?, value),
    };
    let equal = if value.starts_with('"') {
        serde_json::from_str::<Cow<'_, str>>(value).is_ok_and(|value| *value.as_bytes() == *header)
    } else {
        *value.as_bytes() == *header || are_equal_numbers(value.as_bytes(), &header)
    };
    if equal { Ok(()) } else { Err(HeaderFault::Differs) }
}

/// Numbers are compared as such, `42.0` with `42`, within the range in which they are exact.
fn are_equal_numbers(one: &[u8], other: &[u8]) -> bool {
    const SAFE: f64 = 9_007_199_254_740_991.0;
    let number = |text| serde_json::from_slice::<f64>(text).ok().filter(|number| number.abs() <= SAFE);
    number(one).zip(number(other)).is_some_and(|(one, other)| one == other)
}

/// The members of an object, none of them twice.
struct Members<'a>(Vec<(Name<'a>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                let mut names: Vec<&str> = members.iter().map(|(Name(name), _)| &**name).collect();
                names.sort_unstable();
                if names.windows(2).any(|pair| pair[0] == pair[1]) {
                    return Err(serde::de::Error::custom("a member is given twice"));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}
