//! What a client may be able to do.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// A capability of a client that serving a request may need (2026-07-28, schema, `ClientCapabilities`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClientCapability {
    /// Its user can fill in a form.
    ElicitationForm,
    /// Its user can be sent to a URL.
    ElicitationUrl,
    /// An extension, by its identifier.
    Extension(Cow<'static, str>),
    /// It lists its roots.
    Roots,
    /// It can ask a model.
    Sampling,
    /// It can ask a model with context of servers.
    SamplingContext,
    /// It can ask a model that calls tools.
    SamplingTools,
}

impl ClientCapability {
    /// Where it stands among the capabilities: the member, and the member of that.
    fn place(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::ElicitationForm => ("elicitation", Some("form")),
            Self::ElicitationUrl => ("elicitation", Some("url")),
            Self::Extension(name) => ("extensions", Some(name)),
            Self::Roots => ("roots", None),
            Self::Sampling => ("sampling", None),
            Self::SamplingContext => ("sampling", Some("context")),
            Self::SamplingTools => ("sampling", Some("tools")),
        }
    }

    /// These as a client declares them.
    pub(crate) fn declared(required: &[Self]) -> Value {
        let mut all = Map::new();
        for (member, inner) in required.iter().map(Self::place) {
            let declared = all.entry(member).or_insert_with(|| Value::Object(Map::new()));
            if let (Value::Object(declared), Some(inner)) = (declared, inner) {
                declared.insert(inner.to_owned(), Value::Object(Map::new()));
            }
        }
        Value::Object(all)
    }

    /// Their names for people, such as `elicitation.form, roots`.
    pub(crate) fn names(required: &[Self]) -> String {
        let name = |capability: &Self| match capability.place() {
            (member, Some(inner)) => format!("{member}.{inner}"),
            (member, None) => member.to_owned(),
        };
        required.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn capabilities_are_listed_as_a_client_declares_them() {
        use ClientCapability::{ElicitationForm, ElicitationUrl, Extension, Roots, Sampling, SamplingTools};
        for (required, declared, names) in [
            (vec![], json!({}), ""),
            (vec![Roots], json!({ "roots": {} }), "roots"),
            (vec![Sampling, SamplingTools], json!({ "sampling": { "tools": {} } }), "sampling, sampling.tools"),
            (
                vec![ElicitationUrl, ElicitationForm, ElicitationUrl],
                json!({ "elicitation": { "form": {}, "url": {} } }),
                "elicitation.url, elicitation.form, elicitation.url",
            ),
            (
                vec![Extension("org.example/tasks".into())],
                json!({ "extensions": { "org.example/tasks": {} } }),
                "extensions.org.example/tasks",
            ),
        ] {
            assert_eq!(ClientCapability::declared(&required), declared);
            assert_eq!(ClientCapability::names(&required), names);
        }
    }
}
