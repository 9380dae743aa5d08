//! What the embedding program lends to its tools and gates, found by its type: a pool of
//! connections, a client, a clock. Never part of the log.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    sync::Arc,
};

/// Values by their type, one of each. Clones share the values.
#[derive(Clone, Default)]
pub struct Shared(Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl Shared {
    /// Adds a value. One of the same type that was there before is replaced in this map, and stays
    /// in its earlier clones.
    pub fn insert<T: Any + Send + Sync>(&mut self, value: T) {
        Arc::make_mut(&mut self.0).insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// The value of this type; `None` when nobody lent one.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref()
    }
}

/// How many there are, and nothing of what they hold.
impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_of_each_type() {
        let mut shared = Shared::default();
        shared.insert(1_u8);
        shared.insert("pool");
        let before = shared.clone();
        shared.insert(2_u8);
        assert_eq!((shared.get::<u8>(), before.get::<u8>()), (Some(&2), Some(&1)));
        assert_eq!((shared.get::<&str>(), shared.get::<u16>()), (Some(&"pool"), None));
        assert_eq!(format!("{shared:?}"), "Shared(2)");
    }
}
