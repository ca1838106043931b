// SPDX-License-Identifier: GPL-2.0

//! The events of a listener, for which a task can wait.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::end::Watched;
use crate::rdma::listen::{ListenEvent, ListenHandler, Listener, Request};

/// The events of a listener.
#[pin_data]
pub(crate) struct Waiter {
    #[pin]
    requests: Watched<Requests>,
}

/// The requests that nothing has waited for yet.
struct Requests {
    queued: u32,
    refused: u32,
}

impl Waiter {
    pub(crate) fn new() -> Result<Arc<Self>> {
        let requests = Watched::new(Requests {
            queued: 0,
            refused: 0,
        });
        Arc::pin_init(pin_init!(Self { requests <- requests }), GFP_KERNEL)
    }

    /// Waits for a request. Returns whether it was queued; otherwise it was refused. May sleep.
    pub(crate) fn is_queued(&self) -> Result<bool> {
        self.requests.wait(|r| {
            let (count, queued) = match r.queued {
                0 => (&mut r.refused, false),
                _ => (&mut r.queued, true),
            };
            *count = count.checked_sub(1)?;
            Some(queued)
        })
    }

    /// Returns the handler of a listener's events, which notifies this value. May sleep.
    pub(crate) fn handler(self: &Arc<Self>) -> Result<Arc<ListenHandler>> {
        let this = self.clone();
        Ok(Arc::new(move |event| this.on(event), GFP_KERNEL)?)
    }

    /// Handles an event of a listener.
    fn on(&self, event: ListenEvent) {
        match event {
            ListenEvent::RequestQueued => self.requests.change(|r| r.queued += 1),
            ListenEvent::Refused => self.requests.change(|r| r.refused += 1),
            ListenEvent::Lost(why) => pr_info!("the listener is lost: {:?}\n", why),
            ListenEvent::Restored => pr_info!("the listener is back\n"),
        }
    }

    /// Waits for a request, and takes it. May sleep.
    pub(crate) fn request(&self, listener: &Listener) -> Result<Request> {
        if !self.is_queued()? {
            return Err(EBUSY);
        }
        listener.next().ok_or(ENOENT)
    }
}
