// SPDX-License-Identifier: GPL-2.0

//! A server transport for SUNRPC in one page, whose only client is the module itself.
//!
//! Each listener gets two requests for a connection and refuses the first one. Over the other
//! connection the sample calls the service, and checks each reply. Nothing leaves the machine. The
//! sample shows what a server transport implements, and that the room `sunrpc` does not depend on
//! `rdma`: only `raw`, `mem`, `text`, `work` and `sunrpc` are used.
//!
//! ```text
//! insmod svc_null.ko
//! rpc.nfsd 1
//! echo 'rdma 20049' > /proc/fs/nfsd/portlist
//! dmesg                                 # the result of each call, and the end of the connection
//! rpc.nfsd 0
//! rmmod svc_null
//! insmod svc_null.ko refuse=1
//! rpc.nfsd 1
//! echo 'rdma 20049' > /proc/fs/nfsd/portlist                    # Address already in use
//! ```
//!
//! It registers under the name of the RDMA transport, which must not be loaded: `portlist` then
//! creates its listeners.
//!
//! The calls use the pages of the service's thread in different ways:
//!
//! | step | call | pages |
//! | --- | --- | --- |
//! | 0 | NFSv3, procedure 0 | the reply's page is kept for the thread's next reply |
//! | 1 | NFSv4, procedure 0 | the connection takes the reply's page |
//! | 2 | NFSv3, procedure 0 | two pages are taken; one returns, with a payload |
//! | 3 | NFSv3, procedure 99 | SUNRPC frees the reply's page |

#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "rooms are mounted whole, and a sample uses a part of each"
)]

use core::pin::Pin;

use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{new_spinlock, SpinLock};

#[path = "../rust/raw.rs"]
mod raw;
#[path = "../rust"]
mod rooms {
    pub(crate) mod compat;
    pub(crate) mod mem;
    pub(crate) mod sunrpc;
    pub(crate) mod work;
}
#[path = "../rust/text.rs"]
mod text;
use rooms::{compat, mem, sunrpc, work};

use mem::SockAddr;
use mem::{Page, PageRef};
use sunrpc::svc::receive::{Arriving, Incoming, Payload, Receipt};
use sunrpc::svc::reply::Reply;
use sunrpc::svc::transport::{AcceptArgs, Connection, ListenArgs, Listener};
use sunrpc::svc::xprt::{Connected, Handle, Listening, SvcXprt};
use sunrpc::svc::{self, ClassRegistration};

use crate::compat::code::{EADDRINUSE, EAFNOSUPPORT, ENOTCONN};

/// Version and procedure of each step's call, and the status that the reply must have: `SUCCESS` or
/// `PROC_UNAVAIL` of RFC 5531.
const STEPS: [(u32, u32, u32); 4] = [(3, 0, 0), (4, 0, 0), (3, 0, 0), (3, 99, 3)];
/// The step whose call has a payload.
const WITH_PAYLOAD: u32 = 2;
/// Length of that payload.
const PAYLOAD_LEN: usize = 4096;
/// Length of a call without arguments: XID, direction, RPC version, program, version, procedure,
/// and a credential and a verifier of the flavour `AUTH_NONE`.
const CALL_LEN: usize = 40;
/// Length of a reply without results: XID, direction, accepted, verifier, status.
const REPLY_LEN: usize = 24;
/// The NFS program.
const PROGRAM: u32 = 100_003;
/// The XID of the first step's call.
const FIRST_XID: u32 = 0x1000;

/// A connection that is to be accepted.
struct Request {
    local: SockAddr,
    /// Whether the connection fails.
    broken: bool,
}

/// The listener.
#[pin_data]
struct Null {
    addr: SockAddr,
    /// The oldest request is the last.
    #[pin]
    requests: SpinLock<KVec<Request>>,
}

/// Returns an error for an address at which the sample does not listen.
fn check(addr: &SockAddr, refuse: bool) -> Result {
    if u32::from(addr.family()) != raw::AF_INET {
        return Err(EAFNOSUPPORT);
    }
    if refuse {
        return Err(EADDRINUSE);
    }
    Ok(())
}

/// Returns the requests of a new listener.
fn requests(local: SockAddr) -> Result<KVec<Request>> {
    let mut requests = KVec::with_capacity(2, GFP_KERNEL)?;
    for broken in [false, true] {
        requests.push(Request { local, broken }, GFP_KERNEL)?;
    }
    Ok(requests)
}

impl Listener for Null {
    type Connection = Dialogue;
    /// Whether listening fails.
    type Context = bool;

    const NAME: &'static CStr = c"rdma";
    /// `XPRT_TRANSPORT_RDMA`.
    const IDENT: i32 = 256;
    const MAX_PAYLOAD: u32 = 65536;

    fn new(args: ListenArgs<'_, bool>) -> impl PinInit<Self, Error> {
        let ListenArgs { addr, xprt, .. } = args;
        let checked = check(&addr, *args.context).and_then(|()| requests(addr));
        xprt.connection_arrived();
        try_pin_init!(Self {
            addr,
            requests <- new_spinlock!(checked?),
        }? Error)
    }

    fn local(&self) -> SockAddr {
        self.addr
    }

    fn next(&self) -> Option<Request> {
        self.requests.lock().pop()
    }

    fn detach(&self, _xprt: &SvcXprt<Listening>) {
        pr_info!("listener detached\n");
    }
}

/// A call to be made.
struct Step {
    number: u32,
    /// The page with the payload.
    page: Option<Page>,
}

/// The context of a call until its reply has been sent.
struct Context {
    number: u32,
}

/// The connection.
#[pin_data(PinnedDrop)]
struct Dialogue {
    local: SockAddr,
    /// The next call.
    #[pin]
    next: SpinLock<Option<Step>>,
    #[pin]
    handle: SpinLock<Option<Handle<Connected>>>,
    /// The pages of a reply.
    #[pin]
    taken: SpinLock<KVec<PageRef>>,
    /// Number of contexts that were made.
    made: Atomic<u32>,
    /// Number of contexts that were released.
    released: Atomic<u32>,
}

/// Returns an error for a connection that fails.
fn established(broken: bool) -> Result {
    if broken {
        pr_info!("connection refused\n");
        return Err(ENOTCONN);
    }
    Ok(())
}

impl Connection for Dialogue {
    type Request = Request;
    type Call = Context;

    fn new(request: Request, args: AcceptArgs<'_>) -> impl PinInit<Self, Error> {
        let Request { local, broken } = request;
        let first = Step {
            number: 0,
            page: None,
        };
        args.xprt.data_arrived();
        try_pin_init!(Self {
            local: established(broken).map(|()| local)?,
            next <- new_spinlock!(Some(first)),
            handle <- new_spinlock!(Some(args.xprt.handle())),
            taken <- new_spinlock!(KVec::with_capacity(1, GFP_KERNEL)?),
            made: Atomic::new(0),
            released: Atomic::new(0),
        }? Error)
    }

    fn local(&self) -> SockAddr {
        self.local
    }

    fn remote(&self) -> SockAddr {
        SockAddr::new([192, 0, 2, 1], 0)
    }

    fn has_room(&self, _busy: u32) -> bool {
        true
    }

    fn receive<'a>(
        &self,
        _xprt: &SvcXprt<Connected>,
        incoming: Incoming<'a, Context>,
    ) -> Receipt<'a> {
        let Some(step) = self.pop(&incoming) else {
            return incoming.received().nothing();
        };
        let arriving = incoming.received();
        if step.number == WITH_PAYLOAD && step.page.is_none() {
            return self.pull(arriving);
        }
        self.call(step, arriving)
    }

    fn mark_payload(&self, _call: &mut Context, _offset: u32, _len: u32) {}

    fn send(&self, xprt: &SvcXprt<Connected>, mut reply: Reply<'_, Context>) -> Result {
        let mut message = [0; REPLY_LEN];
        let (sent, call) = reply.parts();
        sent.copy_to(0, &mut message)?;
        let number = call.number;
        report(number, &message);
        match number {
            0 => {
                reply.keep();
            }
            1 => reply.take(&mut self.taken.lock()).map_err(|_| ENOSPC)?,
            // SUNRPC frees the page.
            _ => {}
        }
        let number = number + 1;
        if STEPS.get(number as usize).is_none() {
            xprt.close();
        } else {
            self.announce(Step { number, page: None });
        }
        Ok(())
    }

    fn release(&self, _call: KBox<Context>) {
        self.released.fetch_add(1, Relaxed);
    }

    fn detach(&self, _xprt: &SvcXprt<Connected>) {
        let handle = self.handle.lock().take();
        drop(handle);
        pr_info!("connection detached\n");
    }
}

impl Dialogue {
    /// Removes the next call.
    fn pop(&self, incoming: &Incoming<'_, Context>) -> Option<Step> {
        let mut next = self.next.lock();
        incoming.mark_empty();
        next.take()
    }

    /// Makes a thread of the service receive a call, unless the connection was detached.
    fn announce(&self, step: Step) {
        *self.next.lock() = Some(step);
        if let Some(handle) = &*self.handle.lock() {
            handle.data_arrived();
        }
    }

    /// Takes the thread's first pages, writes the payload to one of them, and receives no call.
    fn pull<'a>(&self, arriving: Arriving<'a, Context>) -> Receipt<'a> {
        let Ok(mut pages) = KVec::with_capacity(2, GFP_KERNEL) else {
            return arriving.nothing();
        };
        let receipt = match arriving.take(2, &mut pages) {
            Ok(receipt) => receipt,
            Err(arriving) => arriving.nothing(),
        };
        if let Some(mut page) = pages.pop() {
            page.bytes().fill(0x5a);
            self.announce(Step {
                number: WITH_PAYLOAD,
                page: Some(page),
            });
        }
        receipt
    }

    /// Receives the call of a step.
    fn call<'a>(&self, step: Step, mut arriving: Arriving<'a, Context>) -> Receipt<'a> {
        let Ok(context) = KBox::new(
            Context {
                number: step.number,
            },
            GFP_KERNEL,
        ) else {
            return arriving.nothing();
        };
        let payload = match place(step, &mut arriving) {
            Ok(payload) => payload,
            Err(_) => return arriving.nothing(),
        };
        match arriving.call(payload, context) {
            Ok(receipt) => {
                self.made.fetch_add(1, Relaxed);
                receipt
            }
            Err((arriving, _context, _error)) => arriving.nothing(),
        }
    }
}

/// Places a call in the thread's pages.
fn place(step: Step, arriving: &mut Arriving<'_, Context>) -> Result<Option<Payload>> {
    let call = encode(step.number);
    let Some(mut page) = step.page else {
        arriving.write_inline(call.get(..CALL_LEN).unwrap_or_default())?;
        return Ok(None);
    };
    arriving.exchange(1, core::slice::from_mut(&mut page))?;
    arriving.write_inline(&call)?;
    Ok(Some(Payload {
        at: CALL_LEN,
        len: PAYLOAD_LEN,
    }))
}

/// Returns the call of a step, and one word that may follow a payload.
fn encode(number: u32) -> [u8; CALL_LEN + 4] {
    let (version, procedure, _) = STEPS.get(number as usize).copied().unwrap_or_default();
    let words = [FIRST_XID + number, 0, 2, PROGRAM, version, procedure];
    let mut call = [0; CALL_LEN + 4];
    for (to, word) in call.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_be_bytes());
    }
    call
}

/// Prints whether the reply to a step's call is the expected one.
fn report(number: u32, reply: &[u8; REPLY_LEN]) {
    let (version, procedure, status) = STEPS.get(number as usize).copied().unwrap_or_default();
    // XID, REPLY, MSG_ACCEPTED, AUTH_NONE, length 0, status.
    let expected = [FIRST_XID + number, 1, 0, 0, 0, status];
    let right = reply
        .chunks_exact(4)
        .zip(expected)
        .all(|(bytes, word)| *bytes == word.to_be_bytes());
    pr_info!(
        "NFSv{} procedure {}: {}\n",
        version,
        procedure,
        if right { "right" } else { "wrong" }
    );
}

#[pinned_drop]
impl PinnedDrop for Dialogue {
    fn drop(self: Pin<&mut Self>) {
        pr_info!(
            "connection freed: {} contexts, {} released, {} page\n",
            self.made.load(Relaxed),
            self.released.load(Relaxed),
            self.taken.lock().len()
        );
    }
}

struct NullModule {
    _class: ClassRegistration<Null>,
}

module! {
    type: NullModule,
    name: "svc_null",
    authors: ["The rpcrdma-rust developers"],
    description: "Sample: a server transport that calls its service itself",
    license: "GPL",
    params: {
        refuse: u8 {
            default: 0,
            description: "Refuse to listen (default 0)",
        },
    },
}

impl kernel::Module for NullModule {
    fn init(module: &'static ThisModule) -> Result<Self> {
        let refuse = compat::parameter!(refuse) != 0;
        // SAFETY: The connection does not use the address of a reply's memory.
        let class = unsafe { svc::register::<Null>(module, refuse) }?;
        Ok(Self { _class: class })
    }
}
