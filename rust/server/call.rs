// SPDX-License-Identifier: GPL-2.0

//! What is kept of a call from its arrival to its reply: the context that SUNRPC carries along.
//!
//! The Receive goes back to the device before the service works on the call. The reply needs the
//! write list and the reply chunk, so their bytes are copied.

use kernel::alloc::Flags;
use kernel::prelude::*;

use super::pulled::Pull;
use crate::proto::responder::call;
use crate::proto::responder::marks::{Mark, Marks};
use crate::wire::{Lists, Version};

/// Room for the chunks of an ordinary call, in bytes. A call with more allocates.
const CHUNK_BYTES: usize = 128;

/// A call in progress.
pub(crate) struct Call {
    xid: u32,
    /// The number of the call's Receive, for traces.
    receive: u32,
    version: Version,
    /// The R_key that the reply may invalidate.
    rkey: Option<u32>,
    marks: Marks,
    /// The encoded write chunks, followed by the segments of the reply chunk.
    chunks: KVec<u8>,
    /// The length of the write chunks.
    writes: usize,
    has_reply_chunk: bool,
    /// The inline part, while RDMA Reads fetch the rest.
    pub(super) inline: KVec<u8>,
    /// What RDMA Reads fetch, until a thread of the service receives the call.
    pub(super) pull: Option<Pull>,
    /// The grant counts the call as in progress.
    pub(super) counted: bool,
}

impl Call {
    /// Makes a context for any call. May sleep if `gfp` allows it.
    fn new(gfp: Flags) -> Result<KBox<Self>> {
        let call = Self {
            xid: 0,
            receive: 0,
            version: Version::One,
            rkey: None,
            marks: Marks::new(),
            chunks: KVec::with_capacity(CHUNK_BYTES, gfp)?,
            writes: 0,
            has_reply_chunk: false,
            inline: KVec::new(),
            pull: None,
            counted: false,
        };
        Ok(KBox::new(call, gfp)?)
    }

    /// Makes the context of `call`, which came with Receive number `receive`, of one that no call
    /// uses, or a new one. May sleep if `gfp` allows it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline(always)]
    pub(super) fn begin(
        free: Option<KBox<Self>>,
        call: &call::Call<'_>,
        receive: u32,
        gfp: Flags,
    ) -> Result<KBox<Self>> {
        let mut this = match free {
            Some(context) => context,
            None => Self::new(gfp)?,
        };
        this.take(call, receive, gfp)?;
        Ok(this)
    }

    /// Returns the number of pages of the budget that the call uses.
    pub(super) fn pages(&self) -> usize {
        self.pull.as_ref().map_or(0, |pull| pull.permit.pages())
    }

    /// Takes over what the reply needs of a call that has arrived.
    #[inline]
    fn take(&mut self, call: &call::Call<'_>, receive: u32, gfp: Flags) -> Result {
        self.xid = call.xid();
        self.receive = receive;
        self.version = call.version();
        self.rkey = call.rkey();
        self.marks.clear();
        self.chunks.clear();
        self.writes = 0;
        self.has_reply_chunk = false;
        self.counted = true;
        let (writes, reply) = call.lists().results();
        if !writes.is_empty() || reply.is_some() {
            self.keep(writes, reply, gfp)?;
        }
        Ok(())
    }

    /// Copies the chunks for the reply.
    fn keep(&mut self, writes: &[u8], reply: Option<&[u8]>, gfp: Flags) -> Result {
        self.chunks.extend_from_slice(writes, gfp)?;
        if let Some(reply) = reply {
            self.chunks.extend_from_slice(reply, gfp)?;
        }
        self.writes = writes.len();
        self.has_reply_chunk = reply.is_some();
        Ok(())
    }

    /// Returns the transaction ID.
    #[inline]
    pub(super) fn xid(&self) -> u32 {
        self.xid
    }

    /// Returns the number of the call's Receive. The Receive has been posted again.
    #[inline]
    pub(super) fn receive(&self) -> u32 {
        self.receive
    }

    /// Returns the version of the call, which is that of the reply.
    #[inline]
    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// Returns the R_key that the reply may invalidate.
    #[inline]
    pub(super) fn rkey(&self) -> Option<u32> {
        self.rkey
    }

    /// Returns the write list and the reply chunk of the call.
    #[inline]
    pub(super) fn lists(&self) -> Lists<'_> {
        let Some((writes, reply)) = self.chunks.split_at_checked(self.writes) else {
            return Lists::EMPTY;
        };
        Lists::of_results(writes, self.has_reply_chunk.then_some(reply))
    }

    /// Returns the payloads of the reply.
    #[inline]
    pub(super) fn marks(&self) -> &[Mark] {
        self.marks.as_slice()
    }

    /// Notes a payload of the reply.
    #[inline]
    pub(super) fn mark(&mut self, start: u32, len: u32) {
        let Some((writes, reply)) = self.chunks.split_at_checked(self.writes) else {
            return;
        };
        let lists = Lists::of_results(writes, self.has_reply_chunk.then_some(reply));
        self.marks.add(start, len, &lists);
    }

    /// Returns whether the service has truncated a reply of `len` bytes after it had marked a
    /// payload there.
    #[inline]
    pub(super) fn truncated(&self, len: u32) -> bool {
        self.marks.truncated(len)
    }
}
