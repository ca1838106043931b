// SPDX-License-Identifier: GPL-2.0

//! A transport's address, in the forms SUNRPC shows to people.
//!
//! SUNRPC reads `address_strings` under RCU and frees none of them, with one exception: a write to
//! `dstaddr` in sysfs replaces the string at `RPC_DISPLAY_ADDR` and frees the old one with
//! `kfree()`. So that one comes from `kmalloc`; the others live in the transport itself, which is
//! freed after a grace period.
//!
//! Readers on our side get copies, made under a lock ([`Xprt::shown`]).

use kernel::bindings as k;
use kernel::fmt;
use kernel::prelude::*;
use kernel::str::CStrExt;
use kernel::sync::atomic::{Atomic, Release};
use kernel::sync::{new_spinlock, SpinLock};

use super::handle::Xprt;
use super::transport::Transport;
use crate::mem::SockAddr;
use crate::raw;

/// Room for the longest address, with its scope and the final NUL.
const LEN: usize = 72;
/// Copies of a text that changes.
const COPIES: usize = 4;

/// A text by value.
///
/// # Invariants
///
/// The last byte is 0.
#[derive(Clone, Copy)]
pub(crate) struct Text([u8; LEN]);

impl Text {
    /// The empty text.
    const EMPTY: Self = Self([0; LEN]);

    /// The text, cut to what there is room for.
    fn new(args: fmt::Arguments<'_>) -> Self {
        let mut text = Self::EMPTY;
        // INVARIANT: the last byte is left alone.
        if let Some((_, room)) = text.0.split_last_mut() {
            // Cannot fail: what does not fit is cut off.
            let _ = fmt::Write::write_fmt(&mut Cut { room }, args);
        }
        text
    }

    #[inline]
    fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }

    fn as_char_ptr(&self) -> *const kernel::ffi::c_char {
        self.0.as_ptr().cast()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_c_str(), f)
    }
}

/// Writes as much as there is room for, and drops the rest.
struct Cut<'a> {
    room: &'a mut [u8],
}

impl fmt::Write for Cut<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = core::mem::take(&mut self.room);
        let len = text.len().min(room.len());
        let (now, later) = room.split_at_mut(len);
        for (to, from) in now.iter_mut().zip(text.as_bytes()) {
            *to = *from;
        }
        self.room = later;
        Ok(())
    }
}

/// A text for SUNRPC, which looks at it without a lock: each new one goes into another copy, so that a
/// reader sees the old or the new one. A copy is used again with the fourth change from now. C code that
/// has looked at it for so long finds a mixture there, which still ends in a NUL; nothing in Rust looks.
struct Published {
    copies: [Text; COPIES],
    current: usize,
}

impl Published {
    const fn new() -> Self {
        Self {
            copies: [Text::EMPTY; COPIES],
            current: 0,
        }
    }

    /// Puts a new text beside the old one, and returns it.
    fn set(&mut self, args: fmt::Arguments<'_>) -> &Text {
        let next = (self.current + 1) % COPIES;
        self.current = next;
        // PANIC: a remainder is in bounds.
        let copy = &mut self.copies[next];
        *copy = Text::new(args);
        copy
    }
}

/// The address of a transport as it is shown.
#[derive(Clone, Copy)]
pub(crate) struct Shown {
    /// The address without the port; as of the latest attempt to connect.
    pub(crate) addr: Text,
    /// The port.
    pub(crate) port: u16,
}

/// What is shown of a transport's address.
pub(super) struct Texts {
    shown: Shown,
    port: Published,
    hex_port: Published,
    /// Constant after setup.
    hex_addr: Text,
}

impl Texts {
    /// Nothing to be seen yet. The lock is held for moments only, and nothing is taken inside it, as it
    /// is taken wherever a trace event tells of the transport.
    pub(super) fn new() -> impl PinInit<SpinLock<Self>> {
        let texts = Self {
            shown: Shown {
                addr: Text::EMPTY,
                port: 0,
            },
            port: Published::new(),
            hex_port: Published::new(),
            hex_addr: Text::EMPTY,
        };
        new_spinlock!(texts, "sunrpc::Texts")
    }
}

/// The network part of an address: what tells one host from another.
fn host(addr: &SockAddr) -> &[u8] {
    let bytes = addr.bytes();
    match u32::from(addr.family()) {
        raw::AF_INET => bytes.get(4..8),
        _ => bytes.get(8..24),
    }
    .unwrap_or_default()
}

/// Bytes as hexadecimal digits.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl<T: Transport> Xprt<T> {
    /// Fills in the address strings of a new transport, whose address is set. Only during setup.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn init_strings(&self) -> Result {
        let addr = self.addr();
        self.update_shown_addr();
        self.show_port(addr.port());
        let shown = self.shown().addr;
        // SAFETY: The text ends in a NUL. May sleep.
        let shown = unsafe { k::kstrdup(shown.as_char_ptr(), k::GFP_KERNEL) };
        if shown.is_null() {
            return Err(ENOMEM);
        }
        let [netid4, netid6] = T::NETIDS;
        let netid = if u32::from(addr.family()) == raw::AF_INET6 {
            netid6
        } else {
            netid4
        };
        let mut texts = self.state().texts.lock();
        texts.hex_addr = Text::new(fmt!("{}", Hex(host(&addr))));
        let hex_addr = texts.hex_addr.as_char_ptr();
        // SAFETY: The copy is freed with the transport, and `hex_addr` is a part of it; the others are
        // static.
        unsafe {
            self.publish(raw::rpc_display_format_t_RPC_DISPLAY_ADDR, shown);
            self.publish(raw::rpc_display_format_t_RPC_DISPLAY_HEX_ADDR, hex_addr);
            self.publish(
                raw::rpc_display_format_t_RPC_DISPLAY_PROTO,
                T::PROTO.as_char_ptr(),
            );
            self.publish(
                raw::rpc_display_format_t_RPC_DISPLAY_NETID,
                netid.as_char_ptr(),
            );
        }
        Ok(())
    }

    /// Shows `text` to SUNRPC.
    ///
    /// # Safety
    ///
    /// - `what` is one of `address_strings`.
    /// - `text` ends in a NUL, and stays where it is until the transport is freed.
    unsafe fn publish(&self, what: u32, text: *const kernel::ffi::c_char) {
        // SAFETY: The transport is alive; the rest is what the caller promises. The text was written
        // before it is published; readers do not mind whether they see the old pointer or the new one.
        unsafe {
            let strings = &raw mut (*self.as_raw()).address_strings;
            let entry = strings
                .cast::<*const kernel::ffi::c_char>()
                .add(what as usize);
            Atomic::from_ptr(entry).store(text, Release);
        }
    }

    /// The server's address as it is shown. Any context but interrupts.
    pub(crate) fn shown(&self) -> Shown {
        self.state().texts.lock().shown
    }

    /// Takes over the transport's address as it is now. Send lock held, or during setup.
    pub(super) fn update_shown_addr(&self) {
        let mut buf = [0u8; LEN];
        // SAFETY: The transport's address is a valid `sockaddr_storage`; `buf` has room for `LEN`
        // bytes, and the call ends it with a NUL (or leaves it empty).
        unsafe {
            let addr = (&raw const (*self.as_raw()).addr).cast();
            raw::rpc_ntop(addr, buf.as_mut_ptr().cast(), LEN)
        };
        let text = CStr::from_bytes_until_nul(&buf).unwrap_or_default();
        self.state().texts.lock().shown.addr = Text::new(fmt!("{}", text));
    }

    /// Shows another port.
    fn show_port(&self, port: u16) {
        let mut texts = self.state().texts.lock();
        texts.shown.port = port;
        let port_text = texts.port.set(fmt!("{}", port)).as_char_ptr();
        let hex_port = texts.hex_port.set(fmt!("{:4x}", port)).as_char_ptr();
        // SAFETY: Both are parts of the transport, and always end in a NUL.
        unsafe {
            self.publish(raw::rpc_display_format_t_RPC_DISPLAY_PORT, port_text);
            self.publish(raw::rpc_display_format_t_RPC_DISPLAY_HEX_PORT, hex_port);
        }
    }

    /// The `set_port` operation: rpcbind has answered, one query at a time (`XPRT_BINDING`). As a rule it
    /// answers the same as before.
    pub(super) fn set_port(&self, port: u16) {
        // SAFETY: The transport is alive. IPv4 and IPv6 addresses, of which setup accepts no other,
        // both keep the port in bytes 2 and 3 in network order.
        unsafe {
            (&raw mut (*self.as_raw()).addr)
                .cast::<u8>()
                .add(2)
                .cast::<[u8; 2]>()
                .write(port.to_be_bytes());
        }
        if port != self.shown().port {
            self.show_port(port);
        }
    }

    /// Frees the one string that is not part of the transport. Nobody reads it any more.
    pub(super) fn free_strings(&self) {
        // SAFETY: The last user: neither SUNRPC nor sysfs refers to the transport any more, except
        // for readers under RCU that hold a reference to it, of which there are none.
        unsafe {
            let [addr, ..] = &(*self.as_raw()).address_strings;
            k::kfree(addr.cast());
        }
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_sunrpc_address)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_and_ends_in_nul() {
        let text = Text::new(fmt!("{}", Hex(&[0xab; LEN])));
        assert_eq!(text.as_c_str().count_bytes(), LEN - 1);
        assert_eq!(Text::EMPTY.as_c_str().count_bytes(), 0);
    }

    #[test]
    fn an_old_text_stays_for_three_changes() {
        let mut text = Published::new();
        let first = text.set(fmt!("first")).as_char_ptr();
        for n in 0..COPIES - 1 {
            assert!(text.set(fmt!("{}", n)).as_char_ptr() != first);
        }
        assert!(text.set(fmt!("last")).as_char_ptr() == first);
    }
}
