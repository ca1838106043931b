// SPDX-License-Identifier: GPL-2.0

//! One end of a connection: its objects, and its events and completions.

use kernel::prelude::*;
use kernel::sync::{new_condvar, new_spinlock, Arc, CondVar, CondVarTimeoutResult, SpinLock};
use kernel::time::msecs_to_jiffies;

use super::{block, wire};
use crate::compat::code::{ECONNREFUSED, ENOTCONN, EPROTO};
use crate::rdma::buffer::SendBuf;
use crate::rdma::cm::{CmEvent, CmHandler, CmId};
use crate::rdma::cq::{Cq, Workers};
use crate::rdma::device::Registration;
use crate::rdma::mr::{Kind, Mr, MrPool};
use crate::rdma::pd::Pd;
use crate::rdma::qp::{Completions, Qp, QpConfig, Tag, WcError};
use crate::rdma::recv::{Held, Received};
use crate::Kept;

/// Longest time to wait for an event or a completion, in milliseconds.
const WAIT_MS: u32 = 10_000;
/// Number of scatter/gather entries of a work request of the send queue.
pub(super) const SEND_SGES: u32 = 3;
/// Sizes of the queues. They are small, so that a few rounds use every entry of them.
const CONFIG: QpConfig = QpConfig {
    send_wr: 8,
    recv_wr: 4,
    recv_max: 6,
    send_sge: SEND_SGES,
    tags: 1,
    recv_size: 256,
    recv_batch: 2,
};
/// The tag of all work requests.
pub(crate) const TAG: Tag = Tag::new(0);

/// A value whose changes a task can wait for.
#[pin_data]
pub(crate) struct Watched<T> {
    #[pin]
    value: SpinLock<T>,
    #[pin]
    changed: CondVar,
}

impl<T: Unpin> Watched<T> {
    pub(crate) fn new(value: T) -> impl PinInit<Self> {
        pin_init!(Self {
            value <- new_spinlock!(value, "rdma_ping::Watched::value"),
            changed <- new_condvar!("rdma_ping::Watched::changed"),
        })
    }

    /// Changes the value, and wakes the waiting task.
    pub(crate) fn change<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let result = f(&mut self.value.lock());
        self.changed.notify_all();
        result
    }

    /// Waits until `f` returns a result. May sleep.
    pub(crate) fn wait<R>(&self, mut f: impl FnMut(&mut T) -> Option<R>) -> Result<R> {
        let mut left = msecs_to_jiffies(WAIT_MS);
        let mut value = self.value.lock();
        loop {
            if let Some(result) = f(&mut value) {
                return Ok(result);
            }
            match self.changed.wait_interruptible_timeout(&mut value, left) {
                CondVarTimeoutResult::Woken { jiffies } => left = jiffies,
                CondVarTimeoutResult::Timeout => return Err(ETIMEDOUT),
                CondVarTimeoutResult::Signal { .. } => return Err(EINTR),
            }
        }
    }
}

/// The progress of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Started,
    AddrResolved,
    RouteResolved,
    Established,
    Rejected,
    Over,
    Failed(i32),
}

/// The handler of the events of a cm_id.
#[pin_data]
pub(crate) struct Events {
    #[pin]
    progress: Watched<Progress>,
}

impl Events {
    pub(crate) fn new() -> Result<Arc<Self>> {
        let progress = Watched::new(Progress::Started);
        Arc::pin_init(pin_init!(Self { progress <- progress }), GFP_KERNEL)
    }

    /// Waits until the connection has reached `goal`. May sleep.
    pub(crate) fn wait_for(&self, goal: Progress) -> Result {
        let reached = self.progress.wait(|p| match *p {
            p if p == goal => Some(Ok(())),
            Progress::Rejected => Some(Err(ECONNREFUSED)),
            Progress::Failed(_) | Progress::Over => Some(Err(ENOTCONN)),
            _ => None,
        });
        reached?
    }
}

impl CmHandler for Events {
    fn event(&self, event: CmEvent<'_>) {
        let now = match event {
            CmEvent::AddrResolved => Progress::AddrResolved,
            CmEvent::RouteResolved => Progress::RouteResolved,
            CmEvent::Established { .. } => Progress::Established,
            CmEvent::Rejected { .. } => Progress::Rejected,
            CmEvent::Disconnected | CmEvent::DeviceRemoval => Progress::Over,
            CmEvent::AddrError(status)
            | CmEvent::RouteError(status)
            | CmEvent::ConnectError(status)
            | CmEvent::Unreachable(status) => Progress::Failed(status),
            _ => return,
        };
        self.progress.change(|p| *p = now);
    }
}

/// Completions that nothing has waited for yet.
struct Completed {
    message: Option<[u8; wire::LEN]>,
    sent: u32,
    failed: Option<WcError>,
    broken: Option<WcError>,
    /// The region that the peer is expected to invalidate.
    offered: Option<Mr>,
    /// Whether the peer has invalidated it.
    invalidated: bool,
    /// Messages that are held, as many as there is room for.
    held: KVec<Held>,
    /// Whether the handler of completed work requests waits.
    stalled: bool,
    /// How often the send queue had room again.
    rooms: u32,
}

/// The consumer of the completions of one end.
#[pin_data]
pub(crate) struct Outcome {
    #[pin]
    completed: Watched<Completed>,
}

impl Outcome {
    fn new() -> Result<Arc<Self>> {
        let completed = Watched::new(Completed {
            message: None,
            sent: 0,
            failed: None,
            broken: None,
            offered: None,
            invalidated: false,
            held: KVec::new(),
            stalled: false,
            rooms: 0,
        });
        Arc::pin_init(pin_init!(Self { completed <- completed }), GFP_KERNEL)
    }

    /// Stores the region that the peer is expected to invalidate.
    pub(crate) fn offer(&self, region: Mr) {
        self.completed.change(|h| {
            h.offered = Some(region);
            h.invalidated = false;
        });
    }

    /// Takes that region back. Also returns whether the peer has invalidated it.
    pub(crate) fn take_back(&self) -> (Option<Mr>, bool) {
        self.completed.change(|h| (h.offered.take(), h.invalidated))
    }

    /// Waits for a message. May sleep.
    pub(crate) fn message(&self) -> Result<[u8; wire::LEN]> {
        let got = self.completed.wait(|h| match (h.message.take(), h.broken) {
            (Some(message), _) => Some(Ok(message)),
            (None, Some(_)) => Some(Err(ENOTCONN)),
            _ => None,
        });
        got?
    }

    /// Waits for the completion of a signalled work request. May sleep.
    pub(crate) fn sent(&self) -> Result {
        let sent = self.completed.wait(|h| {
            if h.sent > 0 {
                h.sent -= 1;
                return Some(Ok(()));
            }
            h.failed.map(|_| Err(EIO))
        });
        sent?
    }

    /// Holds the next `n` messages. May sleep.
    pub(crate) fn hold(&self, n: usize) -> Result {
        let mut held = KVec::with_capacity(n, GFP_KERNEL)?;
        self.completed
            .change(|h| core::mem::swap(&mut h.held, &mut held));
        Ok(())
    }

    /// Waits until as many messages are held as there was room for, and takes them. May sleep.
    pub(crate) fn held(&self) -> Result<KVec<Held>> {
        self.completed.wait(|h| {
            let all = h.held.len() == h.held.capacity();
            all.then(|| core::mem::replace(&mut h.held, KVec::new()))
        })
    }

    /// Lets the handler of completed work requests wait, or continue. While it waits, no further
    /// completion is handled.
    pub(crate) fn stall(&self, stalled: bool) {
        self.completed.change(|h| h.stalled = stalled);
    }

    /// Waits until the send queue has room again. May sleep.
    pub(crate) fn room(&self) -> Result {
        self.completed.wait(|h| {
            h.rooms = h.rooms.checked_sub(1)?;
            Some(())
        })
    }

    /// Waits for the failure of a work request. May sleep.
    pub(crate) fn failed(&self) -> Result<WcError> {
        self.completed.wait(|h| h.failed)
    }
}

impl Completions for Outcome {
    const HOLDS: bool = true;

    fn received(&self, _qp: &Qp<Self>, msg: Received<'_, Self>) {
        let bytes = msg.bytes().try_into().ok();
        self.completed.change(|h| {
            if let Some(region) = &mut h.offered {
                h.invalidated = region.remotely_invalidated(&msg);
            }
            h.message = bytes;
            if h.held.len() < h.held.capacity() {
                drop(h.held.push_within_capacity(msg.hold()));
            }
        });
    }

    fn sent(&self, _qp: &Qp<Self>, _tag: Tag, outcome: Result<(), WcError>) {
        // A task that stalls the handler ends the stall, or this wait times out.
        let _ = self.completed.wait(|h| (!h.stalled).then_some(()));
        self.completed.change(|h| match outcome {
            Ok(()) => h.sent += 1,
            Err(error) => {
                h.failed.get_or_insert(error);
            }
        });
    }

    fn broken(&self, _qp: &Qp<Self>, error: WcError) {
        self.completed.change(|h| h.broken = Some(error));
    }

    fn room(&self, _qp: &Qp<Self>) {
        self.completed.change(|h| h.rooms += 1);
    }
}

/// One end of a connection.
///
/// Fields are dropped in this order. The queue pair is drained first; after that the peer cannot
/// access the regions, so they and the memory that they map may be dropped.
pub(crate) struct End {
    pub(crate) qp: Pin<KBox<Qp<Outcome>>>,
    pub(crate) outcome: Arc<Outcome>,
    pub(crate) out: SendBuf,
    pub(crate) pool: Arc<MrPool>,
    pub(crate) pd: Arc<Pd>,
    pub(crate) to_read: block::Block,
    pub(crate) to_write: block::Block,
    pub(crate) cm: CmId<Events>,
    pub(crate) events: Arc<Events>,
}

impl End {
    /// Makes all objects of an end, for a cm_id that has a device. May sleep.
    pub(crate) fn new(
        cm: CmId<Events>,
        events: Arc<Events>,
        devices: &Registration,
        kept: Arc<Kept>,
    ) -> Result<Self> {
        let changed = Arc::new(move |change| kept.device_changed(change), GFP_KERNEL)?;
        let device = cm.device().ok_or(ENODEV)?;
        let pd = Pd::new(devices.lease(device, changed)?, None)?;
        let cq = Cq::new(&pd, CONFIG.send_wr + CONFIG.recv_max, Workers::Shared)?;
        let outcome = Outcome::new()?;
        let qp = Qp::new(&cm, &pd, cq, &CONFIG, outcome.clone())?;
        qp.post_receives()?;
        Ok(Self {
            qp,
            outcome,
            out: SendBuf::new(&pd, wire::LEN, GFP_KERNEL)?,
            pool: MrPool::new(pd.clone(), 16, Kind::Plain, 2)?,
            pd,
            to_read: block::Block::new()?,
            to_write: block::Block::new()?,
            cm,
            events,
        })
    }

    /// Drops the queue pair, and tries to make another one in the same protection domain. Succeeds
    /// if that is refused: through the second one the peer could access regions that are still
    /// registered.
    pub(crate) fn second_queue_pair(self) -> Result {
        drop(self.qp);
        let cq = Cq::new(&self.pd, CONFIG.send_wr + CONFIG.recv_max, Workers::Core)?;
        match Qp::new(&self.cm, &self.pd, cq, &CONFIG, self.outcome) {
            Err(EBUSY) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(EPROTO),
        }
    }
}
