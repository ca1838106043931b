// SPDX-License-Identifier: GPL-2.0

//! Optional capabilities of a transport, chosen at compile time.
//!
//! [`Transport::Reconnect`] is either [`Supported`] or [`Attached`], [`Transport::Backchannel`]
//! either [`Supported`] or [`Unsupported`]. Generic code reaches the operations and the state of a
//! capability through the two traits below. [`Supported`] implements them for transports that
//! implement [`Reconnect`] or [`Backchannel`]. The other two have null operations and a state of
//! size 0: [`Unsupported`] for every transport, [`Attached`] for those that implement [`Attach`].
//!
//! [`Attach`]: super::transport::Attach
//! [`Reconnect`]: super::transport::Reconnect
//! [`Backchannel`]: super::transport::Backchannel

use kernel::prelude::*;

use super::backchannel::BackchannelReply;
use super::handle::Xprt;
use super::ops::NO_OPS;
use super::transport::{SendError, Transport};
use crate::raw;

/// The transport implements the capability's trait.
pub(crate) struct Supported;

/// The transport uses the connection of a server transport, and implements
/// [`Attach`](super::transport::Attach).
pub(crate) struct Attached;

/// The transport lacks the capability.
pub(crate) struct Unsupported;

/// [`Transport::Reconnect`]: how the transport gets a connection.
pub(crate) trait ReconnectSupport<T: Transport> {
    /// State of the connect protocol: atomics and work items, which any thread may use.
    type State;

    /// Whether the transport connects. Otherwise it uses a connection that the peer has made, and
    /// mounts cannot use its class.
    const CONNECTS: bool;

    /// The operations of the capability; all others are null.
    const OPS: raw::rpc_xprt_ops;

    /// Creates the state of a new transport.
    fn new_state() -> impl PinInit<Self::State, Error>;

    /// Initialises those members of a new transport that control connecting.
    fn init_raw(xprt: &mut raw::rpc_xprt);

    /// Gives a new transport its connection, if it does not connect. Everything else of the
    /// transport exists; only SUNRPC may have access to it from now on. May sleep.
    ///
    /// # Errors
    ///
    /// Those of [`Attach::attach`](super::transport::Attach::attach); `EBUSY`, `EINVAL`. The
    /// transport has no connection and no handles then.
    ///
    /// # Safety
    ///
    /// SUNRPC has supplied `args` in order to create the transport.
    unsafe fn attach(_xprt: &Xprt<T>, _args: &raw::xprt_create) -> Result {
        Ok(())
    }

    /// Waits for the capability's work items and prevents them from running again. Called by the
    /// teardown, which holds the send lock. Sleeps.
    fn cancel(xprt: &Xprt<T>);
}

/// [`Transport::Backchannel`]: whether the peer may call back over the transport.
pub(crate) trait BackchannelSupport<T: Transport> {
    /// State of the backchannel: atomics, work items and `Sync` values, which any thread may use.
    type State;

    /// The operations of the capability; all others are null.
    const OPS: raw::rpc_xprt_ops;

    /// Whether requests of the transport may belong to a backchannel call.
    const SUPPORTED: bool;

    /// Creates the state of a new transport.
    fn new_state() -> impl PinInit<Self::State, Error>;

    /// Sends the reply to a backchannel call. Not called if such calls are not [supported].
    ///
    /// [supported]: Self::SUPPORTED
    ///
    /// # Errors
    ///
    /// See [`SendError`].
    fn send_reply(_xprt: &Xprt<T>, _reply: BackchannelReply<'_>) -> Result<(), SendError> {
        Err(SendError::Io)
    }

    /// Waits for the capability's work item. Called by the teardown when nothing can queue it any
    /// more. Sleeps.
    fn cancel(xprt: &Xprt<T>);
}

impl<T: Transport> BackchannelSupport<T> for Unsupported {
    type State = ();

    const OPS: raw::rpc_xprt_ops = NO_OPS;
    const SUPPORTED: bool = false;

    fn new_state() -> impl PinInit<(), Error> {
        Ok(())
    }

    fn cancel(_xprt: &Xprt<T>) {}
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_sunrpc_support)]
mod tests {
    use super::super::super::seq_file::SeqWriter;
    use super::super::super::svc::xprt::{Connected, SvcXprt};
    use super::super::ops;
    use super::super::rqst::Rqst;
    use super::super::transport::{Attach, CreateArgs, Rpc};
    use super::*;

    /// A transport that implements no optional trait, like a server's callback client.
    struct Callback;

    impl Transport for Callback {
        type Slot = ();
        type Context = ();
        type Reconnect = Attached;
        type Backchannel = Unsupported;

        const IDENT: i32 = 0;
        const NAME: &'static CStr = c"callback";
        const NETIDS: [&'static CStr; 2] = [c"callback", c"callback6"];
        const PROTO: &'static CStr = c"callback";

        fn slots() -> u32 {
            1
        }

        fn max_payload() -> usize {
            4096
        }

        fn new(_args: &CreateArgs, _context: &()) -> impl PinInit<Self, Error> {
            Ok(Self)
        }

        fn new_slot(_index: u32) -> impl PinInit<(), Error> {
            Ok(())
        }

        fn close(&self, _xprt: &Xprt<Self>) {}

        fn destroy(&self, _xprt: &Xprt<Self>) {}

        fn stats(&self, _xprt: &Xprt<Self>, _out: &mut SeqWriter<'_>) {}
    }

    impl Attach for Callback {
        fn attach(&self, _xprt: &Xprt<Self>, _server: &SvcXprt<Connected>) -> Result {
            Ok(())
        }
    }

    impl Rpc for Callback {
        fn prepare(&self, _xprt: &Xprt<Self>, _rqst: Rqst<'_, Self>) -> Result {
            Ok(())
        }

        fn send(&self, _xprt: &Xprt<Self>, _rqst: Rqst<'_, Self>) -> Result<(), SendError> {
            Err(SendError::Io)
        }

        fn invalidate_call(&self, _xprt: &Xprt<Self>, _rqst: Rqst<'_, Self>) {}

        fn release(&self, _xprt: &Xprt<Self>, _rqst: Rqst<'_, Self>) {}
    }

    #[test]
    fn an_unsupported_capability_has_neither_operations_nor_state() {
        let ops = ops::table::<Callback>();
        assert!(ops.connect.is_none() && ops.set_port.is_none() && ops.timer.is_none());
        assert!(ops.bc_setup.is_none() && ops.bc_free_rqst.is_none());
        assert!(ops.send_request.is_some() && ops.close.is_some() && ops.destroy.is_some());
        assert_eq!(
            size_of::<<Attached as ReconnectSupport<Callback>>::State>(),
            0
        );
        assert_eq!(
            size_of::<<Unsupported as BackchannelSupport<Callback>>::State>(),
            0
        );
    }
}
