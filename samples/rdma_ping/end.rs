// SPDX-License-Identifier: GPL-2.0

//! One end of a connection: its objects, and what happens to them.

use kernel::prelude::*;
use kernel::sync::{new_condvar, new_spinlock, Arc, CondVar, CondVarTimeoutResult, SpinLock};
use kernel::time::msecs_to_jiffies;

use super::{block, wire};
use crate::rdma::cm::{CmEvent, CmHandler, CmId};
use crate::rdma::cq::Cq;
use crate::rdma::device::{Registration, Removal};
use crate::rdma::mr::{Kind, Mr, MrPool};
use crate::rdma::pd::Pd;
use crate::rdma::qp::{Completions, Qp, QpConfig, Tag, WcError};
use crate::rdma::recv::Received;
use crate::rdma::send::{ReadBuf, SendBuf};

/// How long anything may take, in milliseconds.
const PATIENCE_MS: u32 = 10_000;
/// Queue sizes are small, so that rounds wrap them.
const CONFIG: QpConfig = QpConfig {
    send_wr: 8,
    recv_wr: 4,
    tags: 1,
    recv_size: 256,
    recv_batch: 2,
};
/// The only tag.
pub(crate) const TAG: Tag = Tag::new(0);

/// A value that others change, and that can be waited for.
#[pin_data]
struct Watched<T> {
    #[pin]
    value: SpinLock<T>,
    #[pin]
    changed: CondVar,
}

impl<T: Unpin> Watched<T> {
    fn new(value: T) -> impl PinInit<Self> {
        pin_init!(Self {
            value <- new_spinlock!(value, "rdma_ping::Watched::value"),
            changed <- new_condvar!("rdma_ping::Watched::changed"),
        })
    }

    fn change<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let result = f(&mut self.value.lock());
        self.changed.notify_all();
        result
    }

    /// Waits until `f` gives something. May sleep.
    fn wait<R>(&self, mut f: impl FnMut(&mut T) -> Option<R>) -> Result<R> {
        let mut left = msecs_to_jiffies(PATIENCE_MS);
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

/// Where a connection stands.
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

/// Follows the events of one identifier.
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

    /// Waits until the connection has got there.
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

/// What has completed and was not looked at yet.
struct Happened {
    message: Option<[u8; wire::LEN]>,
    sent: u32,
    failed: Option<WcError>,
    broken: Option<WcError>,
    /// The region that the peer is expected to invalidate, and whether it has.
    offered: Option<Mr>,
    invalidated: bool,
}

/// Completions of one end.
#[pin_data]
pub(crate) struct Desk {
    #[pin]
    happened: Watched<Happened>,
}

impl Desk {
    fn new() -> Result<Arc<Self>> {
        let happened = Watched::new(Happened {
            message: None,
            sent: 0,
            failed: None,
            broken: None,
            offered: None,
            invalidated: false,
        });
        Arc::pin_init(pin_init!(Self { happened <- happened }), GFP_KERNEL)
    }

    /// Leaves a region here that the peer is to invalidate.
    pub(crate) fn offer(&self, region: Mr) {
        self.happened.change(|h| {
            h.offered = Some(region);
            h.invalidated = false;
        });
    }

    /// Takes it back, with whether the peer has invalidated it.
    pub(crate) fn take_back(&self) -> (Option<Mr>, bool) {
        self.happened.change(|h| (h.offered.take(), h.invalidated))
    }

    /// Waits for a message.
    pub(crate) fn message(&self) -> Result<[u8; wire::LEN]> {
        let got = self.happened.wait(|h| match (h.message.take(), h.broken) {
            (Some(message), _) => Some(Ok(message)),
            (None, Some(_)) => Some(Err(ENOTCONN)),
            _ => None,
        });
        got?
    }

    /// Waits for a signalled work request.
    pub(crate) fn sent(&self) -> Result {
        let sent = self.happened.wait(|h| {
            if h.sent > 0 {
                h.sent -= 1;
                return Some(Ok(()));
            }
            h.failed.map(|_| Err(EIO))
        });
        sent?
    }

    /// Waits for a work request to fail.
    pub(crate) fn failed(&self) -> Result<WcError> {
        self.happened.wait(|h| h.failed)
    }
}

impl Completions for Desk {
    fn received(&self, _qp: &Qp<Self>, msg: Received<'_, Self>) {
        let bytes = msg.bytes().try_into().ok();
        self.happened.change(|h| {
            if let Some(region) = &mut h.offered {
                h.invalidated = region.remotely_invalidated(&msg);
            }
            h.message = bytes;
        });
    }

    fn sent(&self, _qp: &Qp<Self>, _tag: Tag, outcome: Result<(), WcError>) {
        self.happened.change(|h| match outcome {
            Ok(()) => h.sent += 1,
            Err(error) => {
                h.failed.get_or_insert(error);
            }
        });
    }

    fn broken(&self, _qp: &Qp<Self>, error: WcError) {
        self.happened.change(|h| h.broken = Some(error));
    }
}

/// One end of a connection.
///
/// Field order is teardown order: the queue pair is drained first; then regions, and the memory they
/// map, may go.
pub(crate) struct End {
    pub(crate) qp: Qp<Desk>,
    pub(crate) desk: Arc<Desk>,
    pub(crate) out: SendBuf,
    pub(crate) data: SendBuf,
    pub(crate) fetched: ReadBuf,
    pub(crate) pool: Arc<MrPool>,
    pub(crate) pd: Arc<Pd>,
    pub(crate) to_read: block::Block,
    pub(crate) to_write: block::Block,
    pub(crate) cm: CmId<Events>,
    pub(crate) events: Arc<Events>,
}

impl End {
    /// What it takes for an identifier that has a device.
    pub(crate) fn new(
        cm: CmId<Events>,
        events: Arc<Events>,
        devices: &Registration,
        removal: Arc<dyn Removal>,
    ) -> Result<Self> {
        let device = cm.device().ok_or(ENODEV)?;
        let pd = Pd::new(devices.lease(&device, removal)?)?;
        let cq = Cq::new(&pd, CONFIG.send_wr + CONFIG.recv_wr)?;
        let desk = Desk::new()?;
        let qp = Qp::new(&cm, &pd, cq, &CONFIG, desk.clone())?;
        qp.post_receives()?;
        Ok(Self {
            qp,
            desk,
            out: SendBuf::new(&pd, wire::LEN, GFP_KERNEL)?,
            data: SendBuf::new(&pd, block::LEN, GFP_KERNEL)?,
            fetched: ReadBuf::new(&pd, block::LEN, GFP_KERNEL)?,
            pool: MrPool::new(pd.clone(), 16, Kind::Plain, 2)?,
            pd,
            to_read: block::Block::new()?,
            to_write: block::Block::new()?,
            cm,
            events,
        })
    }

    /// Makes another queue pair in place of the first one; succeeds if that is refused. Through it the
    /// peer could reach what the first one has left registered.
    pub(crate) fn second_queue_pair(self) -> Result {
        drop(self.qp);
        let cq = Cq::new(&self.pd, CONFIG.send_wr + CONFIG.recv_wr)?;
        match Qp::new(&self.cm, &self.pd, cq, &CONFIG, self.desk) {
            Err(EBUSY) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(EPROTO),
        }
    }
}
