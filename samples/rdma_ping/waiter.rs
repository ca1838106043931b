// SPDX-License-Identifier: GPL-2.0

//! The handler of a listener's events, on which a task can wait.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::end::Watched;
use crate::rdma::listen::{ListenHandler, Listener, Lost, Request};

/// The handler of a listener's events.
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

    /// Waits for a request, and takes it. May sleep.
    pub(crate) fn request(&self, listener: &Listener) -> Result<Request> {
        if !self.is_queued()? {
            return Err(EBUSY);
        }
        listener.next().ok_or(ENOENT)
    }
}

impl ListenHandler for Waiter {
    fn request_queued(&self) {
        self.requests.change(|r| r.queued += 1);
    }

    fn refused(&self) {
        self.requests.change(|r| r.refused += 1);
    }

    fn lost(&self, why: Lost) {
        pr_info!("the listener is lost: {:?}\n", why);
    }

    fn restored(&self) {
        pr_info!("the listener is back\n");
    }
}
