//! What a tool may do to the world, and how safe it is to do again. One declaration, from which
//! follow: what runs side by side, what recovery may run again, and what a gate can ask about.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::message::{Labels, Privacy, Trust};

/// What a tool may do. [`Effects::default`] is the worst case: what is not declared may do
/// everything. In JSON and YAML a list of the names that hold: `["reads_untrusted"]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effects {
    /// Reads what belongs to the person: files, mail, databases.
    pub reads_private: bool,
    /// Reads what a stranger may have written: pages, issues, messages.
    pub reads_untrusted: bool,
    /// Changes something that can be changed back.
    pub writes: bool,
    /// Sends something out of the person's control.
    pub sends: bool,
    /// Removes something for good.
    pub destroys: bool,
    /// Costs money.
    pub spends: bool,
}

impl Effects {
    /// No effect on the world at all.
    pub const NONE: Self = Self::all(false);

    /// The names, in the order in which they are written down.
    pub const NAMES: [&'static str; 6] =
        ["reads_private", "reads_untrusted", "writes", "sends", "destroys", "spends"];

    const fn all(value: bool) -> Self {
        Self {
            reads_private: value,
            reads_untrusted: value,
            writes: value,
            sends: value,
            destroys: value,
            spends: value,
        }
    }

    /// Whether the tool at most reads.
    pub fn only_reads(&self) -> bool {
        !(self.writes || self.sends || self.destroys || self.spends)
    }

    /// The names that hold, in the order of [`Effects::NAMES`].
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let held = [
            self.reads_private,
            self.reads_untrusted,
            self.writes,
            self.sends,
            self.destroys,
            self.spends,
        ];
        Self::NAMES.into_iter().zip(held).filter_map(|(name, holds)| holds.then_some(name))
    }

    /// Where the result of a tool with these effects comes from.
    pub fn labels(&self) -> Labels {
        Labels {
            trust: if self.reads_untrusted { Trust::Untrusted } else { Trust::Trusted },
            privacy: if self.reads_private { Privacy::Private } else { Privacy::Public },
        }
    }

    fn set(&mut self, name: &str) -> bool {
        match name {
            "reads_private" => self.reads_private = true,
            "reads_untrusted" => self.reads_untrusted = true,
            "writes" => self.writes = true,
            "sends" => self.sends = true,
            "destroys" => self.destroys = true,
            "spends" => self.spends = true,
            _ => return false,
        }
        true
    }
}

impl Default for Effects {
    fn default() -> Self {
        Self::all(true)
    }
}

impl Serialize for Effects {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.names())
    }
}

impl<'de> Deserialize<'de> for Effects {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut effects = Self::NONE;
        for name in Vec::<String>::deserialize(from)? {
            if !effects.set(&name) {
                return Err(D::Error::custom(format!(
                    "no effect is called `{name}`; there are: {}",
                    Self::NAMES.join(", ")
                )));
            }
        }
        Ok(effects)
    }
}

/// How safe it is to run a call a second time when nobody knows whether the first one happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeat {
    /// Runs any number of times and changes nothing.
    Pure,
    /// A second run leaves the world as the first did.
    Idempotent,
    /// Takes an idempotency key; the same key is done once.
    Keyed,
    /// Can be asked whether it happened.
    Probe,
    /// Must not be run again: its outcome is told as unknown.
    #[default]
    Once,
}

impl Repeat {
    /// The word in the log and in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pure => "pure",
            Self::Idempotent => "idempotent",
            Self::Keyed => "keyed",
            Self::Probe => "probe",
            Self::Once => "once",
        }
    }

    /// Whether a run that nobody saw the end of does no harm: it can be ended in the middle, and
    /// done again.
    pub fn is_repeatable(self) -> bool {
        matches!(self, Self::Pure | Self::Idempotent)
    }
}
