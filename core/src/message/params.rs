//! The few members of `params` that routing needs, and of `_meta` in it.
//!
//! Owns which ones they are and that they are looked at in the one pass over a message, borrowed. What is given twice is an
//! error, since peers would disagree on which one counts.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Initialize, Modern};
use crate::id::RequestId;

/// The members of `params`.
#[derive(Default)]
pub(super) struct Params<'a> {
    capabilities: Option<&'a RawValue>,
    client_info: Option<&'a RawValue>,
    meta: Meta<'a>,
    name: Option<&'a RawValue>,
    pub(super) progress_token: Option<&'a RawValue>,
    protocol_version: Option<&'a RawValue>,
    pub(super) request_id: Option<&'a RawValue>,
    task_id: Option<&'a RawValue>,
    uri: Option<&'a RawValue>,
}

impl Params<'_> {
    pub(super) fn initialize(&self) -> Initialize {
        let starts = |raw: Option<&RawValue>, with: char| raw.is_some_and(|raw| raw.get().starts_with(with));
        Initialize {
            complete: starts(self.protocol_version, '"')
                && starts(self.capabilities, '{')
                && starts(self.client_info, '{'),
        }
    }

    pub(super) fn request_token(&self) -> Option<RequestId> {
        RequestId::from_json(self.meta.progress_token?.get())
    }

    pub(super) fn modern_version(&self) -> Option<Box<str>> {
        let raw = self.meta.protocol_version?.get();
        Some(serde_json::from_str(raw).unwrap_or_else(|_| raw.into()))
    }

    /// What a request with this method says of itself, if it bears the mark of the modern era.
    pub(super) fn modern(&self, method: &str) -> Option<Box<Modern>> {
        let version = self.modern_version()?;
        let name = match method {
            "prompts/get" | "tools/call" => self.name,
            "resources/read" => self.uri,
            "tasks/cancel" | "tasks/get" | "tasks/update" => self.task_id,
            _ => None,
        };
        Some(Box::new(Modern {
            has_capabilities: self.meta.client_capabilities.is_some_and(|raw| raw.get().starts_with('{')),
            name: name.and_then(|raw| serde_json::from_str(raw.get()).ok()),
            version,
        }))
    }

    pub(super) fn resource(&self, method: &str) -> Option<Box<str>> {
        match method {
            "resources/subscribe" | "resources/unsubscribe" => serde_json::from_str(self.uri?.get()).ok(),
            _ => None,
        }
    }

    pub(super) fn subscription_id(&self) -> Option<RequestId> {
        RequestId::from_json(self.meta.subscription_id?.get())
    }
}

#[derive(Default)]
struct Meta<'a> {
    client_capabilities: Option<&'a RawValue>,
    progress_token: Option<&'a RawValue>,
    protocol_version: Option<&'a RawValue>,
    subscription_id: Option<&'a RawValue>,
}

/// A member that is there, `null` included: `Option` alone would take null for absent.
pub(super) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// An object whose content doesn't matter here.
pub(super) fn object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<()>, D::Error> {
    struct Object;
    impl<'de> Visitor<'de> for Object {
        type Value = ();
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(())
        }
    }
    deserializer.deserialize_map(Object).map(Some)
}

/// Takes one borrowed value; the same member a second time is an error, since peers would disagree on which
/// one counts.
fn take<'de, A: MapAccess<'de>>(slot: &mut Option<&'de RawValue>, map: &mut A) -> Result<(), A::Error> {
    if slot.replace(map.next_value()?).is_some() {
        return Err(serde::de::Error::custom("a member is given twice"));
    }
    Ok(())
}

/// The parameters of any message.
pub(super) fn params<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Params<'de>, D::Error> {
    struct ParamsVisitor;
    impl<'de> Visitor<'de> for ParamsVisitor {
        type Value = Params<'de>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        /// Some clients write `null` for no parameters.
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Params::default())
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut seen = Params::default();
            let mut meta = false;
            while let Some(Name(key)) = map.next_key()? {
                match &*key {
                    "_meta" if meta => return Err(serde::de::Error::custom("_meta is given twice")),
                    "_meta" => {
                        seen.meta = map.next_value()?;
                        meta = true;
                    }
                    "capabilities" => take(&mut seen.capabilities, &mut map)?,
                    "clientInfo" => take(&mut seen.client_info, &mut map)?,
                    "name" => take(&mut seen.name, &mut map)?,
                    "progressToken" => take(&mut seen.progress_token, &mut map)?,
                    "protocolVersion" => take(&mut seen.protocol_version, &mut map)?,
                    "requestId" => take(&mut seen.request_id, &mut map)?,
                    "taskId" => take(&mut seen.task_id, &mut map)?,
                    "uri" => take(&mut seen.uri, &mut map)?,
                    _ => {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
            }
            Ok(seen)
        }
    }
    deserializer.deserialize_any(ParamsVisitor)
}

impl<'de: 'a, 'a> Deserialize<'de> for Meta<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MetaVisitor;
        impl<'de> Visitor<'de> for MetaVisitor {
            type Value = Meta<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Meta::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut seen = Meta::default();
                while let Some(Name(key)) = map.next_key()? {
                    match &*key {
                        "progressToken" => take(&mut seen.progress_token, &mut map)?,
                        "io.modelcontextprotocol/clientCapabilities" => take(&mut seen.client_capabilities, &mut map)?,
                        "io.modelcontextprotocol/protocolVersion" => take(&mut seen.protocol_version, &mut map)?,
                        "io.modelcontextprotocol/subscriptionId" => take(&mut seen.subscription_id, &mut map)?,
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(seen)
            }
        }
        deserializer.deserialize_any(MetaVisitor)
    }
}

/// A member's name, or another short text: borrowed, unless it was written with escapes.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name<'a>(pub(crate) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }
            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Borrowed(name)))
            }
            fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }
        }
        deserializer.deserialize_str(NameVisitor)
    }
}
