// SPDX-License-Identifier: GPL-2.0

//! Posting on the send queue. Process context or atomic; never allocates, never sleeps.

use super::*;
use crate::rdma::buffer::Buffer;
use crate::rdma::mr::Mr;
use crate::rdma::region::{Region, State};
use crate::rdma::send::{ReadBuf, SendBuf};
use crate::rdma::sq::Full;

const SIGNALED: i32 = bindings::ib_send_flags_IB_SEND_SIGNALED;

/// Why a chain was not posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostError {
    /// There is no room on the queue now; [`Completions::room`] will say when there is. Nothing
    /// was posted, and what was given is as before.
    Full,
    /// The queue pair is of no use any more. Part of the chain may have been posted: regions count
    /// as live and buffers as in flight until it has been drained.
    Broken(Error),
    /// The arguments make no sense (a tag or length too large, a length of 0, a region in the wrong
    /// state, something of another protection domain, nothing to do). Nothing was posted.
    Invalid,
}

impl From<PostError> for Error {
    fn from(error: PostError) -> Self {
        match error {
            PostError::Full => code::ENOBUFS,
            PostError::Broken(error) => error,
            PostError::Invalid => code::EINVAL,
        }
    }
}

/// Memory of the peer: where, and under which R_key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    /// Address as the peer gave it.
    pub(crate) addr: u64,
    /// R_key as the peer gave it.
    pub(crate) rkey: u32,
}

/// Work requests of regions, chained in the order they were added.
///
/// # Invariants
///
/// All members, `count` of them from `first` to `last`, belong to regions that are borrowed
/// exclusively for as long as the chain is used.
struct Chain {
    first: *mut bindings::ib_send_wr,
    last: *mut bindings::ib_send_wr,
    count: u32,
}

impl Chain {
    const fn new() -> Self {
        Self {
            first: core::ptr::null_mut(),
            last: core::ptr::null_mut(),
            count: 0,
        }
    }

    /// Adds a work request.
    #[inline]
    fn add(&mut self, wr: *mut bindings::ib_send_wr) {
        if self.first.is_null() {
            self.first = wr;
        } else {
            // SAFETY: By the type invariant.
            unsafe { (*self.last).next = wr };
        }
        self.last = wr;
        self.count += 1;
    }

    /// Does something with each region in the chain.
    fn for_each(&self, mut f: impl FnMut(&mut Region)) {
        let mut wr = self.first;
        for _ in 0..self.count {
            // SAFETY: By the type invariant it is a region's work request.
            let region = unsafe { &mut *kernel::container_of!(wr, Region, wr.wr) };
            let next = region.wr.wr.next;
            f(region);
            wr = next;
        }
    }
}

impl<C: Completions> Qp<C> {
    /// Posts the registration of `regions`, all of them just mapped, and the Send of the first
    /// `len` bytes of `buf`, as one chain. Returns the position of the Send.
    ///
    /// The regions are live from now on, and `buf` is in flight until [`Self::retired`] has
    /// reached the position. With `signal`, [`Completions::sent`] says when the Send is done.
    ///
    /// # Errors
    ///
    /// See [`PostError`].
    #[inline]
    pub(crate) fn post_send<'a>(
        &self,
        tag: Tag,
        regions: impl IntoIterator<Item = &'a mut Mr>,
        buf: &mut SendBuf,
        len: usize,
        signal: bool,
    ) -> Result<u64, PostError> {
        let cqe = self.entry(tag)?;
        let mut sge = self.outgoing(buf.buffer(), len)?;
        let mut send = bindings::ib_send_wr {
            sg_list: &raw mut sge,
            num_sge: 1,
            opcode: bindings::ib_wr_opcode_IB_WR_SEND,
            ..pin_init::zeroed()
        };
        send.__bindgen_anon_1.wr_cqe = cqe;

        let mut chain = Chain::new();
        let mut staged = Ok(());
        for region in regions {
            if region.state() != State::Mapped || !region.is_of(&self.inner().pd) {
                staged = Err(PostError::Invalid);
                break;
            }
            let region = region.region();
            region.set_posted(self.gate());
            region.wr.wr.__bindgen_anon_1.wr_cqe = cqe;
            region.wr.wr.send_flags = 0;
            chain.add(&raw mut region.wr.wr);
        }
        let registrations = Chain { ..chain };
        chain.add(&raw mut send);

        // SAFETY: The chain's regions are borrowed exclusively by the caller for `'a`, and the
        // Send with what it refers to is on the stack.
        let posted = staged.and_then(|()| unsafe { self.submit(&chain, tag, signal) });
        match posted {
            Err(PostError::Full | PostError::Invalid) => {
                registrations.for_each(|region| region.state = State::Mapped);
            }
            Err(PostError::Broken(_)) => buf.buffer().posted(self.gate(), u64::MAX),
            Ok(position) => buf.buffer().posted(self.gate(), position),
        }
        posted
    }

    /// Posts local invalidations of those of `regions` that are posted; others are passed over.
    /// [`Completions::sent`] says when all of them are done. Returns the position of the last.
    ///
    /// # Errors
    ///
    /// See [`PostError`]; [`PostError::Invalid`] if there was none to invalidate.
    #[inline]
    pub(crate) fn post_invalidate<'a>(
        &self,
        tag: Tag,
        regions: impl IntoIterator<Item = &'a mut Mr>,
    ) -> Result<u64, PostError> {
        let cqe = self.entry(tag)?;
        let mut chain = Chain::new();
        for region in regions {
            let ours = region.is_posted_on(self.gate());
            if !ours {
                continue;
            }
            let region = region.region();
            region.prepare_invalidation();
            region.wr.wr.__bindgen_anon_1.wr_cqe = cqe;
            region.wr.wr.send_flags = 0;
            chain.add(&raw mut region.wr.wr);
        }
        if chain.count == 0 {
            return Err(PostError::Invalid);
        }
        // SAFETY: The chain's regions are borrowed exclusively by the caller for `'a`.
        let position = unsafe { self.submit(&chain, tag, true) }?;
        // All of them are done when the last is.
        chain.for_each(|region| region.state = State::Invalidating(position));
        Ok(position)
    }

    /// Posts an RDMA Read of `len` bytes from the peer's memory to the start of `buf`; signalled.
    ///
    /// # Errors
    ///
    /// See [`PostError`].
    pub(crate) fn post_read(
        &self,
        tag: Tag,
        buf: &mut ReadBuf,
        len: usize,
        from: Remote,
    ) -> Result<u64, PostError> {
        let opcode = bindings::ib_wr_opcode_IB_WR_RDMA_READ;
        self.post_rdma(tag, opcode, buf.buffer(), len, from, true)
    }

    /// Posts an RDMA Write of the first `len` bytes of `buf` to the peer's memory.
    ///
    /// # Errors
    ///
    /// See [`PostError`].
    pub(crate) fn post_write(
        &self,
        tag: Tag,
        buf: &mut SendBuf,
        len: usize,
        to: Remote,
        signal: bool,
    ) -> Result<u64, PostError> {
        let opcode = bindings::ib_wr_opcode_IB_WR_RDMA_WRITE;
        self.post_rdma(tag, opcode, buf.buffer(), len, to, signal)
    }

    /// Posts an RDMA Write of nothing, signalled: on a link that acknowledges, it completes only if
    /// the peer's end of the connection is there. It needs no memory of the peer, as nobody looks at
    /// R_key and address of such a Write (InfiniBand Architecture, C9-88), and takes none of its
    /// Receives. iWARP peers greet each other with one (RFC 6581), but there its completion proves no
    /// more than that it is on its way.
    ///
    /// # Errors
    ///
    /// See [`PostError`].
    pub(crate) fn post_probe(&self, tag: Tag) -> Result<u64, PostError> {
        let mut wr = bindings::ib_rdma_wr {
            ..pin_init::zeroed()
        };
        wr.wr.opcode = bindings::ib_wr_opcode_IB_WR_RDMA_WRITE;
        wr.wr.__bindgen_anon_1.wr_cqe = self.entry(tag)?;
        let mut chain = Chain::new();
        chain.add(&raw mut wr.wr);
        // SAFETY: The work request is there during the call, and refers to no memory.
        unsafe { self.submit(&chain, tag, true) }
    }

    /// Posts a Send of the first `len` bytes of `buf` that invalidates `rkey` at the peer.
    ///
    /// # Errors
    ///
    /// See [`PostError`].
    pub(crate) fn post_send_invalidate(
        &self,
        tag: Tag,
        buf: &mut SendBuf,
        len: usize,
        rkey: u32,
        signal: bool,
    ) -> Result<u64, PostError> {
        let mut wr = bindings::ib_rdma_wr {
            ..pin_init::zeroed()
        };
        wr.wr.opcode = bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV;
        wr.wr.ex.invalidate_rkey = rkey;
        self.post_one(tag, &mut wr, buf.buffer(), len, signal)
    }

    fn post_rdma(
        &self,
        tag: Tag,
        opcode: bindings::ib_wr_opcode,
        buffer: &mut Buffer,
        len: usize,
        remote: Remote,
        signal: bool,
    ) -> Result<u64, PostError> {
        let mut wr = bindings::ib_rdma_wr {
            remote_addr: remote.addr,
            rkey: remote.rkey,
            ..pin_init::zeroed()
        };
        wr.wr.opcode = opcode;
        self.post_one(tag, &mut wr, buffer, len, signal)
    }

    /// Posts one work request for the first `len` bytes of `buffer`.
    fn post_one(
        &self,
        tag: Tag,
        wr: &mut bindings::ib_rdma_wr,
        buffer: &mut Buffer,
        len: usize,
        signal: bool,
    ) -> Result<u64, PostError> {
        let cqe = self.entry(tag)?;
        let mut sge = self.outgoing(buffer, len)?;
        wr.wr.__bindgen_anon_1.wr_cqe = cqe;
        wr.wr.sg_list = &raw mut sge;
        wr.wr.num_sge = 1;
        let mut chain = Chain::new();
        chain.add(&raw mut wr.wr);
        // SAFETY: The work request and what it refers to are there during the call.
        let posted = unsafe { self.submit(&chain, tag, signal) };
        match posted {
            Err(PostError::Full | PostError::Invalid) => {}
            Err(PostError::Broken(_)) => buffer.posted(self.gate(), u64::MAX),
            Ok(position) => buffer.posted(self.gate(), position),
        }
        posted
    }

    /// The completion entry of a tag.
    #[inline]
    fn entry(&self, tag: Tag) -> Result<*mut bindings::ib_cqe, PostError> {
        // CAST: `usize` has at least 32 bits.
        let entry = self.inner().tags.get(tag.0 as usize);
        let entry = entry.ok_or(PostError::Invalid)?;
        Ok((&raw const entry.cqe).cast_mut())
    }

    /// Hands the start of a buffer to the device, and describes it.
    #[inline]
    fn outgoing(&self, buffer: &Buffer, len: usize) -> Result<bindings::ib_sge, PostError> {
        // To some devices a length of 0 means the largest.
        if len == 0 || len > buffer.len() || !Arc::ptr_eq(buffer.pd(), &self.inner().pd) {
            return Err(PostError::Invalid);
        }
        buffer.give(len);
        Ok(bindings::ib_sge {
            addr: buffer.addr(),
            // CAST: no more than the buffer's length, which fits.
            length: len as u32,
            lkey: self.inner().lkey,
        })
    }

    /// Posts a chain of `tag` and enters it into the books.
    ///
    /// # Safety
    ///
    /// All work requests of the chain are valid, with the entry of `tag`, and nobody else touches
    /// them during the call. Memory that they refer to stays until they have completed or the
    /// queue pair has been drained.
    #[inline]
    unsafe fn submit(&self, chain: &Chain, tag: Tag, wanted: bool) -> Result<u64, PostError> {
        let inner = self.inner();
        // Held while posting: positions are in the order of the queue, and draining can rely on
        // nothing being posted after it has closed the books.
        let mut sending = inner.books.lock();
        if !sending.open || inner.gate.is_broken() {
            return Err(PostError::Broken(ENOTCONN));
        }
        let admission = match sending.books.admit(chain.count, tag.0, wanted) {
            Ok(admission) => admission,
            Err(Full) => return Err(PostError::Full),
        };
        if admission.signalled {
            // SAFETY: As this function asks for.
            unsafe { (*chain.last).send_flags |= SIGNALED };
        }
        // SAFETY: As above.
        unsafe { (*chain.last).next = core::ptr::null_mut() };
        let mut bad = core::ptr::null();
        // SAFETY: As above; the queue pair is there. The driver copies the work requests.
        let posted = unsafe { bindings::rr_ib_post_send(inner.qp, chain.first, &raw mut bad) };
        match to_result(posted) {
            Ok(()) => Ok(admission.position),
            Err(error) => {
                // Which part was posted does not matter any more: all of it ends with the drain.
                inner.gate.break_off();
                Err(PostError::Broken(error))
            }
        }
    }
}
