//! Where a message names requests, and the same message with other names.
//!
//! Owns the places of those members: the `id`, the progress token, the `requestId` of a cancellation and the id of a
//! subscription (2026-07-28, basic and subscriptions). They are found in one pass over the bytes and replaced by cutting
//! and joining them: nothing else of a message changes, whatever is in it. Does not know what the names mean.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// What a member names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Member {
    /// `id`: the request itself, or what a response answers.
    Id,
    /// `params.progressToken`: what a note about progress is about.
    Progress,
    /// `params.requestId`: what a cancellation cancels.
    Cancelled,
    /// `params._meta.progressToken`: how notes about the progress of a request shall name it.
    ProgressToken,
    /// The id of a subscription in `params._meta`: what a note belongs to.
    Subscription,
    /// The same in `result._meta`: which subscription a response closes.
    Closed,
}

/// A value in a message that names a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) member: Member,
    /// Where its JSON text is.
    pub(super) at: Range<usize>,
}

/// Finds the members that name requests, in the order of the bytes. `raw` must be a JSON-RPC message.
///
/// A member that is given twice is found twice. Members of that name that lie elsewhere are none.
pub(super) fn places(raw: &[u8]) -> Vec<Place> {
    let mut places = Vec::with_capacity(3);
    let walk = Walk { level: Level::Message, raw, places: &mut places };
    let mut json = serde_json::Deserializer::from_slice(raw);
    if walk.deserialize(&mut json).is_err() {
        // A value that is JSON but nothing that Rust could hold, such as a number beyond all bounds, where an object
        // with such members could have been. Whoever waits for the response gets it all the same.
        #[derive(Deserialize)]
        struct Envelope<'a> {
            #[serde(borrow)]
            id: Option<&'a RawValue>,
        }
        let id = serde_json::from_slice::<Envelope<'_>>(raw).ok().and_then(|envelope| envelope.id);
        places = id.map(|id| Place { member: Member::Id, at: range(raw, id) }).into_iter().collect();
    }
    places
}

/// `raw` with other texts in some places, which must not overlap.
pub(super) fn splice<'a>(raw: &[u8], edits: impl IntoIterator<Item = (&'a Range<usize>, &'a str)>) -> Bytes {
    let mut spliced = Vec::with_capacity(raw.len() + 32);
    let mut from = 0;
    for (at, text) in edits {
        spliced.extend_from_slice(&raw[from..at.start]);
        spliced.extend_from_slice(text.as_bytes());
        from = at.end;
    }
    spliced.extend_from_slice(&raw[from..]);
    Bytes::from(spliced)
}

/// Where `value`, which was borrowed from `raw`, lies in it.
fn range(raw: &[u8], value: &RawValue) -> Range<usize> {
    let start = value.get().as_ptr() as usize - raw.as_ptr() as usize;
    start..start + value.get().len()
}

/// Which object it is in.
#[derive(Clone, Copy)]
enum Level {
    Message,
    Params,
    ParamsMeta,
    Result,
    ResultMeta,
}

enum Step {
    Into(Level),
    Take(Member),
}

impl Level {
    fn step(self, name: &str) -> Option<Step> {
        Some(match (self, name) {
            (Self::Message, "id") => Step::Take(Member::Id),
            (Self::Message, "params") => Step::Into(Self::Params),
            (Self::Message, "result") => Step::Into(Self::Result),
            (Self::Params, "_meta") => Step::Into(Self::ParamsMeta),
            (Self::Params, "progressToken") => Step::Take(Member::Progress),
            (Self::Params, "requestId") => Step::Take(Member::Cancelled),
            (Self::ParamsMeta, "progressToken") => Step::Take(Member::ProgressToken),
            (Self::ParamsMeta, SUBSCRIPTION) => Step::Take(Member::Subscription),
            (Self::Result, "_meta") => Step::Into(Self::ResultMeta),
            (Self::ResultMeta, SUBSCRIPTION) => Step::Take(Member::Closed),
            (Self::Message | Self::Params | Self::ParamsMeta | Self::Result | Self::ResultMeta, _) => return None,
        })
    }
}

/// Walks through one object; what is no object has no members.
struct Walk<'a> {
    level: Level,
    raw: &'a [u8],
    places: &'a mut Vec<Place>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { level, raw, places } = self;
        while let Some(Name(name)) = map.next_key()? {
            match level.step(&name) {
                Some(Step::Into(level)) => map.next_value_seed(Walk { level, raw, places: &mut *places })?,
                Some(Step::Take(member)) => {
                    let value = map.next_value::<&RawValue>()?;
                    places.push(Place { member, at: range(raw, value) });
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// A member's name: borrowed, unless it was written with escapes.
struct Name<'a>(Cow<'a, str>);

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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn found(raw: &str) -> Vec<(Member, &str)> {
        places(raw.as_bytes()).into_iter().map(|place| (place.member, &raw[place.at])).collect()
    }

    #[test]
    fn each_member_is_found_where_it_means_something_and_nowhere_else() {
        let look_alikes = r#"{"id":1,"requestId":2,"progressToken":3,"_meta":{"progressToken":4,"io.modelcontextprotocol/subscriptionId":5}}"#;
        let request = format!(
            r#" {{"params" : {{"_meta":{{"x":{look_alikes},"progressToken" : "t" }},"arguments":{look_alikes},"requestId":7,"progressToken":8.0}}, "id": "a\"b" ,"x":{look_alikes}}}"#
        );
        let expected = [
            (Member::ProgressToken, "\"t\""),
            (Member::Cancelled, "7"),
            (Member::Progress, "8.0"),
            (Member::Id, "\"a\\\"b\""),
        ];
        assert_eq!(found(&request), expected);
        let response = format!(
            r#"{{"id":-1,"result":{{"_meta":{{"progressToken":1,"io.modelcontextprotocol\/subscript\u0069onId":[1]}},"content":[{look_alikes}]}}}}"#
        );
        assert_eq!(found(&response), [(Member::Id, "-1"), (Member::Closed, "[1]")]);
        let note = r#"{"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"1"}}}"#;
        assert_eq!(found(note), [(Member::Subscription, "\"1\"")]);
        assert_eq!(found(r#"{"id":1,"i\u0064":2}"#), [(Member::Id, "1"), (Member::Id, "2")]);
    }

    #[test]
    fn what_is_no_object_has_no_members_and_hides_no_id() {
        for odd in
            ["null", "true", "-1", "1.5", "1e400", "\"\\ud800\"", "\"id\"", "[{\"_meta\":{}}]", "{\"_meta\":1e999}"]
        {
            let raw = format!(r#"{{"result":{odd},"id":5}}"#);
            assert_eq!(found(&raw), [(Member::Id, "5")], "{odd}");
        }
    }

    /// A small generator, so that each run is the same.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, bound: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % bound as u64) as usize
        }

        fn one_of<T: Clone>(&mut self, of: &[T]) -> T {
            of[self.below(of.len())].clone()
        }

        fn value(&mut self, depth: usize) -> Value {
            match self.below(if depth == 0 { 5 } else { 8 }) {
                0 => Value::Null,
                1 => json!(self.below(2) == 0),
                2 => json!(self.below(1_000) as f64 / 8.0),
                3 => json!(-(self.below(1_000) as i64)),
                4 => json!(self.one_of(&["", "a\"b\\", "é\u{2028}\u{0}", "\u{1f600}", "},{", "\"id\":1"])),
                5 => (0..self.below(4)).map(|_| self.value(depth - 1)).collect(),
                _ => self.object(depth - 1),
            }
        }

        fn object(&mut self, depth: usize) -> Value {
            let names = ["id", "params", "result", "_meta", "progressToken", "requestId", SUBSCRIPTION, "é", "x", ""];
            (0..self.below(6)).map(|_| (self.one_of(&names).to_owned(), self.value(depth))).collect::<Value>()
        }

        /// The same JSON in another spelling: white space between tokens, and now and then a letter as an escape.
        fn spelling(&mut self, value: &Value) -> String {
            let mut spelt = String::new();
            let (mut inside, mut escaped) = (false, false);
            for letter in value.to_string().chars() {
                let plain = inside && !escaped && letter.is_ascii_lowercase();
                if plain && self.below(8) == 0 {
                    spelt += &format!("\\u{:04x}", letter as u32);
                } else {
                    spelt.push(letter);
                }
                inside ^= letter == '"' && !escaped;
                escaped = inside && !escaped && letter == '\\';
                if !inside && "\"{}[],:".contains(letter) {
                    spelt += self.one_of(&["", "", " ", "\t\r\n "]);
                }
            }
            spelt
        }
    }

    /// What is at a place, in a tree.
    fn in_tree(value: &mut Value, member: Member) -> Option<&mut Value> {
        let path = match member {
            Member::Id => "/id",
            Member::Progress => "/params/progressToken",
            Member::Cancelled => "/params/requestId",
            Member::ProgressToken => "/params/_meta/progressToken",
            Member::Subscription => "/params/_meta/io.modelcontextprotocol~1subscriptionId",
            Member::Closed => "/result/_meta/io.modelcontextprotocol~1subscriptionId",
        };
        value.pointer_mut(path)
    }

    const ALL: [Member; 6] =
        [Member::Id, Member::Progress, Member::Cancelled, Member::ProgressToken, Member::Subscription, Member::Closed];

    #[test]
    fn splicing_changes_those_members_alone_and_back_again() {
        let mut dice = Dice(0x5e55_11e0);
        for _ in 0..20_000 {
            let mut value = dice.object(4);
            let raw = dice.spelling(&value);
            let places = places(raw.as_bytes());
            for member in ALL {
                let there = places.iter().filter(|place| place.member == member).count();
                assert_eq!(there, usize::from(in_tree(&mut value, member).is_some()), "{member:?} in {raw}");
            }
            let texts: Vec<_> = places.iter().map(|_| dice.one_of(&["1", "\"x\"", "-90071992547"])).collect();
            let edits = || places.iter().zip(&texts);
            let spliced = splice(raw.as_bytes(), edits().map(|(place, text)| (&place.at, *text)));
            let mut expected = value.clone();
            for (place, text) in edits() {
                *in_tree(&mut expected, place.member).expect("it is there") = serde_json::from_str(text).expect("JSON");
            }
            assert_eq!(serde_json::from_slice::<Value>(&spliced).expect("JSON"), expected, "{raw}");

            let again = self::places(&spliced);
            let back = again.iter().zip(&places).map(|(now, before)| (&now.at, &raw[before.at.clone()]));
            assert_eq!(splice(&spliced, back), raw);
        }
    }
}
