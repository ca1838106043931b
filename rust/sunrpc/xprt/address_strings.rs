// SPDX-License-Identifier: GPL-2.0

//! `rpc_xprt.address_strings`: a transport's address in the forms that SUNRPC displays.
//!
//! SUNRPC reads the strings under RCU and frees none of them, with one exception: a write to
//! `dstaddr` in sysfs replaces the string at `RPC_DISPLAY_ADDR` and frees the old string with
//! `kfree()`. That string is therefore allocated with `kmalloc()`. The other strings are part of
//! the transport itself, which is freed after a grace period.
//!
//! This module's own readers get copies, made under a lock ([`Xprt::shown`]).

use kernel::bindings as k;
use kernel::fmt;
use kernel::prelude::*;
use kernel::str::CStrExt;
use kernel::sync::atomic::{Atomic, Release};
use kernel::sync::{new_spinlock, SpinLock};

use super::super::address::{host, ntop, AddrText};
use super::handle::Xprt;
use super::transport::Transport;
use crate::compat::casts::u32_as_usize;
use crate::raw;

/// Number of buffers of a string that changes.
const BUFFERS: usize = 4;

/// A string that SUNRPC reads without a lock. Each new value goes to the next buffer, so that a
/// reader sees either the old or the new value. A buffer is reused for the fourth value after its
/// own: C code that reads a string that long may read a mixture of two values, which still ends in
/// a NUL. Rust code never reads the buffers.
struct UnlockedText {
    buffers: [AddrText; BUFFERS],
    current: usize,
}

impl UnlockedText {
    const fn new() -> Self {
        Self {
            buffers: [AddrText::EMPTY; BUFFERS],
            current: 0,
        }
    }

    /// Stores a new value and returns it. The previous value stays intact.
    fn set(&mut self, value: fmt::Arguments<'_>) -> &AddrText {
        let next = (self.current + 1) % BUFFERS;
        self.current = next;
        // PANIC: A remainder is in bounds.
        let buffer = &mut self.buffers[next];
        *buffer = AddrText::new(&value);
        buffer
    }
}

/// The address of a transport, for messages and trace events.
#[derive(Clone, Copy)]
pub(crate) struct DisplayAddr {
    /// The address without the port, as of the latest attempt to connect.
    pub(crate) addr: AddrText,
    /// The port.
    pub(crate) port: u16,
}

/// The strings of a transport.
pub(super) struct AddressStrings {
    shown: DisplayAddr,
    port: UnlockedText,
    hex_port: UnlockedText,
    /// Constant after setup.
    hex_addr: AddrText,
}

impl AddressStrings {
    /// Creates empty strings.
    ///
    /// Every trace event that names a transport takes the lock. It is therefore held only briefly,
    /// and no other lock is taken under it.
    pub(super) fn new() -> impl PinInit<SpinLock<Self>> {
        let strings = init!(Self {
            shown: DisplayAddr {
                addr: AddrText::EMPTY,
                port: 0,
            },
            port: UnlockedText::new(),
            hex_port: UnlockedText::new(),
            hex_addr: AddrText::EMPTY,
        });
        new_spinlock!(strings, "sunrpc::XprtState::address_strings")
    }
}

/// Displays bytes as hexadecimal digits.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl<T: Transport> Xprt<T> {
    /// Fills in the strings of a new transport, whose address is set. Only during setup.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn init_strings(&self) -> Result {
        let addr = self.addr();
        self.update_shown_addr();
        self.update_port(addr.port());
        let shown = self.shown().addr;
        // SAFETY: The string ends in a NUL. May sleep.
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
        let mut strings = self.state.address_strings.lock();
        strings.hex_addr = AddrText::new(&fmt!("{}", Hex(host(&addr))));
        let hex_addr = strings.hex_addr.as_char_ptr();
        // SAFETY: The copy at `shown` is freed with the transport, and `hex_addr` is a part of the
        // transport's pinned state; the other strings are static. All end in a NUL.
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

    /// Makes SUNRPC display `text`.
    ///
    /// # Safety
    ///
    /// - `format` is an index of `address_strings`.
    /// - `text` ends in a NUL, and stays valid until the transport is freed.
    unsafe fn publish(&self, format: u32, text: *const kernel::ffi::c_char) {
        // SAFETY: The transport is alive, and by the safety requirements `format` is in bounds and
        // `text` remains valid. The string is written before the pointer is stored; readers accept
        // either the old or the new pointer.
        unsafe {
            let strings = &raw mut (*self.as_raw()).address_strings;
            let entry = strings
                .cast::<*const kernel::ffi::c_char>()
                .add(u32_as_usize(format));
            Atomic::from_ptr(entry).store(text, Release);
        }
    }

    /// Returns the server's address as it is displayed. Process context, also with spinlocks held.
    pub(crate) fn shown(&self) -> DisplayAddr {
        self.state.address_strings.lock().shown
    }

    /// Formats the transport's current address. Send lock held, or during setup.
    pub(super) fn update_shown_addr(&self) {
        let text = ntop(&self.addr());
        self.state.address_strings.lock().shown.addr = text;
    }

    /// Formats a new port.
    fn update_port(&self, port: u16) {
        let mut strings = self.state.address_strings.lock();
        strings.shown.port = port;
        let port_text = strings.port.set(fmt!("{}", port)).as_char_ptr();
        let hex_port = strings.hex_port.set(fmt!("{:4x}", port)).as_char_ptr();
        // SAFETY: Both are buffers in the transport's pinned state, which by the type invariants of
        // `StackString` always end in a NUL.
        unsafe {
            self.publish(raw::rpc_display_format_t_RPC_DISPLAY_PORT, port_text);
            self.publish(raw::rpc_display_format_t_RPC_DISPLAY_HEX_PORT, hex_port);
        }
    }

    /// Implements the `set_port` operation, which SUNRPC calls for one answer of rpcbind at a time
    /// (`XPRT_BINDING`). Most answers repeat the known port.
    pub(super) fn set_port(&self, port: u16) {
        // SAFETY: The transport is alive. `setup` accepts IPv4 and IPv6 addresses only, both of
        // which have the port in bytes 2 and 3, in network order.
        unsafe {
            (&raw mut (*self.as_raw()).addr)
                .cast::<u8>()
                .add(2)
                .cast::<[u8; 2]>()
                .write(port.to_be_bytes());
        }
        if port != self.shown().port {
            self.update_port(port);
        }
    }

    /// Frees the string that is not part of the transport. Called by the teardown, when no
    /// reader is left.
    pub(super) fn free_strings(&self) {
        // SAFETY: SUNRPC and sysfs have put their references to the transport. A reader under RCU
        // would hold a reference, so there is none. The string was allocated by `kstrdup()`, here
        // or in SUNRPC's sysfs code, or is null.
        unsafe {
            let [addr, ..] = &(*self.as_raw()).address_strings;
            k::kfree(addr.cast());
        }
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_sunrpc_address_strings)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_hexadecimal() {
        let text = AddrText::new(&fmt!("{}", Hex(&[0xfe, 0x80, 0])));
        assert!(text.as_bytes() == b"fe8000");
    }

    #[test]
    fn a_value_stays_intact_for_three_changes() {
        let mut text = UnlockedText::new();
        let first = text.set(fmt!("first")).as_char_ptr();
        for n in 0..BUFFERS - 1 {
            assert!(text.set(fmt!("{}", n)).as_char_ptr() != first);
        }
        assert!(text.set(fmt!("last")).as_char_ptr() == first);
    }
}
