// SPDX-License-Identifier: GPL-2.0

//! A transport's address, in the forms SUNRPC shows to people.
//!
//! SUNRPC reads `address_strings` under RCU and frees none of them, with one exception: a write to
//! `dstaddr` in sysfs replaces the string at `RPC_DISPLAY_ADDR` and frees the old one with
//! `kfree()`. So that one comes from `kmalloc`; the others live in the transport itself, which is
//! freed after a grace period.

use core::cell::UnsafeCell;

use kernel::bindings as k;
use kernel::fmt;
use kernel::prelude::*;
use kernel::str::CStrExt;
use kernel::sync::atomic::{Acquire, Atomic, Relaxed, Release};

use super::transport::Transport;
use super::xprt::Xprt;
use crate::mem::SockAddr;
use crate::raw;

/// Room for the longest address, with its scope and the final NUL.
const TEXT: usize = 72;
/// Copies of a text that changes.
const COPIES: usize = 4;

/// A text that may change while others read it: each new one goes into another copy, so a reader sees
/// the old or the new one. Texts change under the send lock, seldom, and are read for moments only;
/// a copy is used again no earlier than with the fourth change from now.
///
/// # Invariants
///
/// - Each copy ends in a NUL byte.
/// - `current` is below [`COPIES`]; that copy is not written to.
pub(super) struct Text {
    copies: UnsafeCell<[[u8; TEXT]; COPIES]>,
    current: Atomic<usize>,
}

impl Text {
    fn new() -> Self {
        Self {
            copies: UnsafeCell::new([[0; TEXT]; COPIES]),
            current: Atomic::new(0),
        }
    }

    fn copy(&self, index: usize) -> *mut [u8; TEXT] {
        // SAFETY: By the callers' care the index is in bounds.
        unsafe { self.copies.get().cast::<[u8; TEXT]>().add(index % COPIES) }
    }

    /// The text as of now.
    fn get(&self) -> &CStr {
        let copy = self.copy(self.current.load(Acquire));
        // SAFETY: By the type invariants the current copy is not written to, and ends in a NUL.
        let bytes = unsafe { &*copy };
        CStr::from_bytes_until_nul(bytes).unwrap_or_default()
    }

    /// Replaces the text, cut to what there is room for. Callers hold the send lock, or are alone.
    fn set(&self, args: fmt::Arguments<'_>) {
        let next = (self.current.load(Relaxed) + 1) % COPIES;
        // SAFETY: By the type invariants nobody reads this copy, and the callers exclude each other.
        let bytes = unsafe { &mut *self.copy(next) };
        bytes.fill(0);
        if let Some((_, room)) = bytes.split_last_mut() {
            // Cannot fail: what does not fit is cut off.
            let _ = fmt::Write::write_fmt(&mut Cut { room }, args);
        }
        // INVARIANT: In bounds, and the last byte was left 0.
        self.current.store(next, Release);
    }

    fn as_char_ptr(&self) -> *const kernel::ffi::c_char {
        self.get().as_char_ptr()
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

/// The texts of one transport.
pub(super) struct Strings {
    addr: Text,
    port: Text,
    hex_addr: Text,
    hex_port: Text,
}

impl Strings {
    /// Empty texts.
    pub(super) fn new() -> Self {
        Self {
            addr: Text::new(),
            port: Text::new(),
            hex_addr: Text::new(),
            hex_port: Text::new(),
        }
    }

    /// The address without the port.
    pub(super) fn addr(&self) -> &CStr {
        self.addr.get()
    }

    /// The port.
    pub(super) fn port(&self) -> &CStr {
        self.port.get()
    }

    /// Takes over the transport's address as it is now. Send lock held.
    pub(super) fn set_addr<T: Transport>(&self, xprt: &Xprt<T>) {
        let mut buf = [0u8; TEXT];
        // SAFETY: The transport's address is a valid `sockaddr_storage`; `buf` has room for `TEXT`
        // bytes, and the call ends it with a NUL (or leaves it empty).
        unsafe {
            let addr = (&raw const (*xprt.as_raw()).addr).cast();
            raw::rpc_ntop(addr, buf.as_mut_ptr().cast(), TEXT)
        };
        let text = CStr::from_bytes_until_nul(&buf).unwrap_or_default();
        if text != self.addr.get() {
            self.addr.set(fmt!("{}", text));
        }
    }

    fn set_port(&self, port: u16) {
        self.port.set(fmt!("{}", port));
        self.hex_port.set(fmt!("{:4x}", port));
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
        let (addr, strings) = (self.addr(), &self.state().strings);
        strings.set_addr(self);
        strings.hex_addr.set(fmt!("{}", Hex(host(&addr))));
        strings.set_port(addr.port());
        // SAFETY: The text ends in a NUL. May sleep.
        let shown = unsafe { k::kstrdup(strings.addr.as_char_ptr(), k::GFP_KERNEL) };
        if shown.is_null() {
            return Err(ENOMEM);
        }
        let [netid4, netid6] = T::NETIDS;
        let netid = if u32::from(addr.family()) == raw::AF_INET6 {
            netid6
        } else {
            netid4
        };
        self.publish(raw::rpc_display_format_t_RPC_DISPLAY_ADDR, shown);
        self.publish(
            raw::rpc_display_format_t_RPC_DISPLAY_HEX_ADDR,
            strings.hex_addr.as_char_ptr(),
        );
        self.publish(
            raw::rpc_display_format_t_RPC_DISPLAY_PROTO,
            T::PROTO.as_char_ptr(),
        );
        self.publish(
            raw::rpc_display_format_t_RPC_DISPLAY_NETID,
            netid.as_char_ptr(),
        );
        self.publish_port();
        Ok(())
    }

    /// Shows `text` to SUNRPC, for as long as the transport exists.
    fn publish(&self, what: u32, text: *const kernel::ffi::c_char) {
        // SAFETY: The transport is alive, and `what` one of its strings. The text was written before
        // it is published; readers do not mind whether they see the old pointer or the new one.
        unsafe {
            let strings = &raw mut (*self.as_raw()).address_strings;
            let entry = strings
                .cast::<*const kernel::ffi::c_char>()
                .add(what as usize);
            Atomic::from_ptr(entry).store(text, Release);
        }
    }

    fn publish_port(&self) {
        let strings = &self.state().strings;
        self.publish(
            raw::rpc_display_format_t_RPC_DISPLAY_PORT,
            strings.port.as_char_ptr(),
        );
        self.publish(
            raw::rpc_display_format_t_RPC_DISPLAY_HEX_PORT,
            strings.hex_port.as_char_ptr(),
        );
    }

    /// The `set_port` operation: rpcbind has answered. Send lock held by the task that asked.
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
        self.state().strings.set_port(port);
        self.publish_port();
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
