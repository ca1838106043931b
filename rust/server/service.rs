// SPDX-License-Identifier: GPL-2.0

//! What all listeners and connections share.

use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::time::msecs_to_jiffies;

use super::budget::Budget;
use super::watch::{self, Watch};
use crate::conn::registry::Registry;
use crate::mem::{self, PagePool};
use crate::rdma::device::Registration;
use crate::work::{Queue, Ticker};

/// The most free pages that the pool keeps: as many as four calls of the largest payload need.
const FREE_PAGES: usize = 4096;

/// Calls that are being fetched use at most this part of the memory: a sixteenth.
const BUDGET_SHARE: usize = 16;

/// What all listeners and connections of the module share.
pub(crate) struct Service {
    pub(super) devices: Arc<Registration>,
    /// Pages for calls that are being fetched.
    pub(super) pages: Arc<PagePool>,
    /// How many pages such calls may use.
    pub(super) budget: Arc<Budget>,
    /// Makes and closes connections. The queue is emptied before the module is unloaded.
    pub(super) workers: Queue,
    pub(super) watch: Arc<Watch>,
    pub(super) connections: Arc<Registry>,
    _ticker: Ticker,
}

/// The owner of the [`Service`]. Dropping it waits for the workers. Otherwise a worker could be the
/// last to use the service, and it cannot end its own workqueue.
pub(crate) struct Owned(Arc<Service>);

impl Owned {
    /// Makes what the listeners share. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(devices: Arc<Registration>, connections: Arc<Registry>) -> Result<Self> {
        let watch = Arc::pin_init(Watch::new(), GFP_KERNEL)?;
        let watched = watch.clone();
        let interval = msecs_to_jiffies(watch::INTERVAL_MS);
        let service = Service {
            devices,
            pages: PagePool::new(FREE_PAGES)?,
            budget: Budget::new(mem::total_pages() / BUDGET_SHARE)?,
            workers: Queue::reliable(c"rpcrdma", c"server")?,
            watch,
            connections,
            _ticker: Ticker::new(interval, move || watched.look())?,
        };
        Ok(Self(Arc::new(service, GFP_KERNEL)?))
    }

    /// Returns the service, for the registration of the class.
    pub(crate) fn service(&self) -> Arc<Service> {
        self.0.clone()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.workers.flush();
    }
}
