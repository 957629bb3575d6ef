//! Reports to the relay from which keys events were delivered, without waiting for it.

use std::collections::HashMap;

use tokio::sync::mpsc::{Sender, error::TrySendError};

use postrider_core::order::OrderKey;

/// Keys whose reports can wait. If there are more, all are dropped: the relay also asks on its own.
const WAITING_MAX: usize = 10_000;

/// An event of a key was delivered from the side table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyDelivered {
    /// The key.
    pub key: OrderKey,
    /// How many events of the key are still there, counted up to one more than a batch.
    pub live: usize,
}

pub(super) struct KeyNotifier {
    sender: Sender<KeyDelivered>,
    /// The newest count of each key.
    waiting: HashMap<OrderKey, usize>,
}

impl KeyNotifier {
    pub(super) fn new(sender: Sender<KeyDelivered>) -> Self {
        KeyNotifier { sender, waiting: HashMap::new() }
    }

    pub(super) fn add(&mut self, keys: Vec<(OrderKey, usize)>) {
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.clear();
        }
        self.waiting.extend(keys);
    }

    /// Hands over as much as the channel can hold.
    pub(super) fn publish(&mut self) {
        let mut is_full = false;
        let sender = &self.sender;
        self.waiting.retain(|key, live| {
            if is_full {
                return true;
            }
            match sender.try_send(KeyDelivered { key: key.clone(), live: *live }) {
                Ok(()) => false,
                Err(TrySendError::Full(_)) => {
                    is_full = true;
                    true
                }
                // The receiver is gone.
                Err(TrySendError::Closed(_)) => false,
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> OrderKey {
        OrderKey::of("t", Some(name), None, false).unwrap()
    }

    #[test]
    fn the_newest_of_a_key_waits_until_there_is_room() {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        let mut notifier = KeyNotifier::new(sender);
        notifier.add(vec![(key("a"), 3)]);
        notifier.publish();
        notifier.add(vec![(key("b"), 3)]);
        notifier.publish();
        notifier.add(vec![(key("b"), 0)]);
        notifier.publish();
        assert_eq!(receiver.try_recv(), Ok(KeyDelivered { key: key("a"), live: 3 }));
        assert!(receiver.try_recv().is_err());
        notifier.publish();
        assert_eq!(receiver.try_recv(), Ok(KeyDelivered { key: key("b"), live: 0 }));
        drop(receiver);
        notifier.add(vec![(key("c"), 0)]);
        notifier.publish();
        assert!(notifier.waiting.is_empty());
    }
}
