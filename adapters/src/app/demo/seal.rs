//! The state of a request that waits for input, which travels through the client (2026-07-28, multi round-trip requests).
//!
//! Nothing is kept here meanwhile: the state says until when it is good, and carries a keyed hash of that together with whose it is
//! and what was asked. A client could gain nothing by forging one but to answer what it was not asked, so that the 64 bits of SipHash
//! that the standard library has are enough. A server that has more to lose takes an HMAC.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use sessile_core::Timestamp;

/// How long somebody may think about an answer.
const GOOD_FOR: Duration = Duration::from_secs(10 * 60);

/// The key, one for each server.
#[derive(Debug, Default)]
pub(super) struct Seal(RandomState);

/// What a state is bound to.
#[derive(Clone, Copy, Hash)]
pub(super) struct Bond<'a> {
    /// Whose request it is.
    pub(super) principal: Option<&'a str>,
    pub(super) tool: &'static str,
    pub(super) question: &'a str,
}

/// Why a state is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    Expired,
    /// It is of another request, of somebody else, or was never given out.
    Foreign,
}

impl Seal {
    pub(super) fn close(&self, now: Timestamp, bond: Bond<'_>) -> String {
        let until = now.saturating_add(GOOD_FOR).as_nanos();
        format!("{until:x}.{:016x}", self.0.hash_one((until, bond)))
    }

    pub(super) fn check(&self, now: Timestamp, bond: Bond<'_>, state: &str) -> Result<(), Broken> {
        let (until, tag) = state.split_once('.').ok_or(Broken::Foreign)?;
        let until = u64::from_str_radix(until, 16).map_err(|_| Broken::Foreign)?;
        let tag = u64::from_str_radix(tag, 16).map_err(|_| Broken::Foreign)?;
        if tag != self.0.hash_one((until, bond)) {
            return Err(Broken::Foreign);
        }
        if now.as_nanos() < until { Ok(()) } else { Err(Broken::Expired) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOND: Bond<'_> = Bond { principal: Some("ada"), tool: "ask", question: "Name?" };

    #[test]
    fn a_state_is_good_for_its_bond_and_its_time_alone() {
        let seal = Seal::default();
        let now = Timestamp::from_secs(1_000);
        let state = seal.close(now, BOND);
        assert_eq!(seal.check(now, BOND, &state), Ok(()));
        assert_eq!(seal.check(Timestamp::from_millis(1_599_999), BOND, &state), Ok(()));
        assert_eq!(seal.check(Timestamp::from_secs(1_600), BOND, &state), Err(Broken::Expired));
        for other in [
            Bond { principal: None, ..BOND },
            Bond { principal: Some("bob"), ..BOND },
            Bond { tool: "sample", ..BOND },
            Bond { question: "Name", ..BOND },
        ] {
            assert_eq!(seal.check(now, other, &state), Err(Broken::Foreign));
        }
        assert_eq!(Seal::default().check(now, BOND, &state), Err(Broken::Foreign), "another server's");
    }

    #[test]
    fn a_state_that_was_changed_is_foreign() {
        let seal = Seal::default();
        let now = Timestamp::from_secs(1_000);
        let state = seal.close(now, BOND);
        let (until, tag) = state.split_once('.').expect("two parts");
        for forged in [
            "",
            ".",
            "x",
            until,
            &format!("{until}."),
            &format!("{until}0.{tag}"),
            &format!("{until}.{}", tag.chars().rev().collect::<String>()),
            &format!("{state}0"),
            &format!("{}.{tag}", u64::MAX),
        ] {
            assert_eq!(seal.check(now, BOND, forged), Err(Broken::Foreign), "{forged}");
        }
    }
}
