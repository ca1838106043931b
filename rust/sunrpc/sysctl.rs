// SPDX-License-Identifier: GPL-2.0

//! Settings and counters: files in a directory of `/proc/sys`.
//!
//! An [`IntSysctl`] holds an integer, an [`EnumSysctl`] a word of a list, an [`AddrSysctl`] IP
//! addresses, and a [`Counter`] counts events. They are statics that all code may use;
//! [`Registration`] makes some of them visible to the administrator. Writing a value out of range
//! to a setting fails with `EINVAL` and changes nothing. Any write to a counter sets it to zero.
//!
//! C header: [`include/linux/sysctl.h`](srctree/include/linux/sysctl.h)

use core::fmt::Write;
use core::net::{IpAddr, Ipv6Addr};
use core::ptr::NonNull;

use kernel::bindings as k;
use kernel::ffi::{c_int, c_void};
use kernel::prelude::*;
use kernel::str::CStrExt;
use kernel::sync::atomic::{Atomic, Relaxed};

use crate::compat::casts::u32_as_usize;
use crate::mem::SockAddr;
use crate::raw;
use crate::text::{self, StackString};

/// A sysctl in the directory of a [`Registration`].
///
/// # Safety
///
/// The pointers in the description stay valid while the module is loaded, and any thread may call
/// its handler with it at any time.
pub(crate) unsafe trait Sysctl: Sync {
    /// Returns the C description.
    fn table(&'static self) -> k::ctl_table;
}

/// An integer sysctl.
pub(crate) struct IntSysctl {
    value: Atomic<i32>,
    name: &'static CStr,
    min: i32,
    max: i32,
}

impl IntSysctl {
    /// Creates a sysctl called `name` with the value `default` and the range `min..=max`.
    pub(crate) const fn new(name: &'static CStr, default: i32, min: i32, max: i32) -> Self {
        assert!(min <= default && default <= max);
        Self {
            value: Atomic::new(default),
            name,
            min,
            max,
        }
    }

    /// Returns the current value, at least zero. It may change at any time: code that needs the
    /// same value twice must read it once.
    pub(crate) fn get(&self) -> u32 {
        u32::try_from(self.value.load(Relaxed)).unwrap_or(0)
    }

    /// Returns the current value if it is one of a byte, and `None` for the value -1.
    pub(crate) fn byte(&self) -> Option<u8> {
        u8::try_from(self.value.load(Relaxed)).ok()
    }
}

// SAFETY: The pointers are those of a static's fields. `proc_dointvec_minmax` accesses the value
// without a lock, as an atomic does, and its limits are not above each other.
unsafe impl Sysctl for IntSysctl {
    fn table(&'static self) -> k::ctl_table {
        k::ctl_table {
            procname: self.name.as_char_ptr(),
            data: self.value.as_ptr().cast(),
            maxlen: size_of::<i32>() as i32,
            mode: 0o644,
            proc_handler: Some(raw::proc_dointvec_minmax),
            // `proc_dointvec_minmax` only reads the limits.
            extra1: (&raw const self.min).cast_mut().cast(),
            extra2: (&raw const self.max).cast_mut().cast(),
            ..pin_init::zeroed()
        }
    }
}

/// A sysctl that holds a word of a list.
pub(crate) struct EnumSysctl {
    /// Index of the current word in `words`.
    chosen: Atomic<u32>,
    name: &'static CStr,
    words: &'static [&'static str],
}

impl EnumSysctl {
    /// Creates a sysctl called `name` with the value `words[default]`.
    pub(crate) const fn new(
        name: &'static CStr,
        words: &'static [&'static str],
        default: u32,
    ) -> Self {
        assert!(u32_as_usize(default) < words.len());
        Self {
            chosen: Atomic::new(default),
            name,
            words,
        }
    }

    /// Returns the index of the current word. It may change at any time: code that needs the
    /// same value twice must read it once.
    pub(crate) fn get(&self) -> u32 {
        self.chosen.load(Relaxed)
    }
}

impl TextSysctl for EnumSysctl {
    fn name(&self) -> &'static CStr {
        self.name
    }

    fn line(&self) -> Line {
        let word = self.words.get(u32_as_usize(self.get())).unwrap_or(&"");
        Line::new(&fmt!("{word}\n"))
    }

    fn write(&self, text: &[u8]) -> Result {
        let word = text.trim_ascii();
        let found = self.words.iter().position(|known| known.as_bytes() == word);
        let number = u32::try_from(found.ok_or(EINVAL)?)?;
        self.chosen.store(number, Relaxed);
        Ok(())
    }
}

/// The maximum number of addresses in a list.
const ADDRS: usize = 8;

/// A sysctl that holds a list of IP addresses, which commas separate.
///
/// The halves of an address are accessed with relaxed ordering: while the list is written, a reader
/// may see addresses of the old and of the new list, and addresses that are in neither.
pub(crate) struct AddrSysctl {
    name: &'static CStr,
    /// The halves of each address, an IPv4 address as mapped into IPv6. Behind the last address is
    /// the unspecified one.
    halves: [[Atomic<u64>; 2]; ADDRS],
}

impl AddrSysctl {
    /// Creates a sysctl called `name` with an empty list.
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            halves: [const { [Atomic::new(0), Atomic::new(0)] }; ADDRS],
        }
    }

    /// Returns the current addresses. They may change at any time.
    pub(crate) fn get(&self) -> impl Iterator<Item = IpAddr> + Clone + '_ {
        let join = |[high, low]: &[Atomic<u64>; 2]| {
            let bits = u128::from(high.load(Relaxed)) << 64 | u128::from(low.load(Relaxed));
            Ipv6Addr::from(bits).to_canonical()
        };
        let addrs = self.halves.iter().map(join);
        addrs.take_while(|addr| !addr.is_unspecified())
    }
}

impl TextSysctl for AddrSysctl {
    fn name(&self) -> &'static CStr {
        self.name
    }

    fn line(&self) -> Line {
        let mut line = Line::EMPTY;
        for (at, addr) in self.get().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let _ = core::write!(line, "{comma}{addr}");
        }
        let _ = line.write_str("\n");
        line
    }

    fn write(&self, text: &[u8]) -> Result {
        let text = core::str::from_utf8(text).map_err(|_| EINVAL)?;
        let words = text.split(',').map(str::trim).filter(|w| !w.is_empty());
        let parse = |word: &str| Some(word.parse::<IpAddr>().ok()?.to_canonical());
        let addrs = words.clone().map_while(parse).take(ADDRS);
        let addrs = addrs.take_while(|addr| !addr.is_unspecified());
        if addrs.clone().count() != words.count() {
            return Err(EINVAL);
        }
        let mut all = addrs.map(|addr| u128::from_be_bytes(SockAddr::new(addr, 0).ip()));
        for [high, low] in &self.halves {
            let bits = all.next().unwrap_or(0);
            // CAST: the halves of the bits.
            high.store((bits >> 64) as u64, Relaxed);
            low.store(bits as u64, Relaxed);
        }
        Ok(())
    }
}

/// The number of lanes of a counter, a power of two.
const LANES: usize = 16;

/// A part of a counter. It has a cache line of its own, so that processors that count in different
/// lanes do not contend.
#[repr(align(64))]
struct Lane(Atomic<u64>);

/// A sysctl that counts events, and is reset to zero by any write.
///
/// The count is the sum of several lanes. A caller of [`Self::add`] chooses a lane by a number that
/// tends to stay on a processor, for example that of a connection. The lanes are accessed with
/// relaxed ordering: a reader may see values of different moments.
pub(crate) struct Counter {
    name: &'static CStr,
    lanes: [Lane; LANES],
}

impl Counter {
    /// Creates a counter called `name` with the value zero.
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            lanes: [const { Lane(Atomic::new(0)) }; LANES],
        }
    }

    /// Counts `n` events in a lane. Any context.
    pub(crate) fn add(&self, lane: usize, n: u64) {
        if let Some(Lane(count)) = self.lanes.get(lane % LANES) {
            count.add(n, Relaxed);
        }
    }

    /// Returns the number of events.
    fn get(&self) -> u64 {
        let count = |sum: u64, Lane(lane): &Lane| sum.wrapping_add(lane.load(Relaxed));
        self.lanes.iter().fold(0, count)
    }

    /// Sets the counter to zero. An event that is counted meanwhile may be lost.
    fn reset(&self) {
        self.lanes
            .iter()
            .for_each(|Lane(lane)| lane.store(0, Relaxed));
    }
}

impl TextSysctl for Counter {
    fn name(&self) -> &'static CStr {
        self.name
    }

    fn line(&self) -> Line {
        Line::new(&fmt!("{}\n", self.get()))
    }

    fn write(&self, _text: &[u8]) -> Result {
        self.reset();
        Ok(())
    }
}

/// A line. It has space for the largest number, for any word and for a list of addresses, with
/// newline and NUL.
type Line = StackString<{ ADDRS * 40 + 1 }>;

/// A sysctl that is read and written as a line of text. The methods run in process context.
trait TextSysctl: Sync + 'static {
    /// Returns the name.
    fn name(&self) -> &'static CStr;

    /// Returns the text for a reader, which ends in a newline.
    fn line(&self) -> Line;

    /// Sets the value from the text of a writer.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the text has no valid value.
    fn write(&self, text: &[u8]) -> Result;
}

// SAFETY: The pointers are those of statics. `handle` takes the description of an `F`, which is
// `Sync`.
unsafe impl<F: TextSysctl> Sysctl for F {
    fn table(&'static self) -> k::ctl_table {
        k::ctl_table {
            procname: self.name().as_char_ptr(),
            data: (&raw const *self).cast_mut().cast(),
            // CAST: A line is short.
            maxlen: size_of::<Line>() as i32,
            mode: 0o644,
            proc_handler: Some(handle::<F>),
            ..pin_init::zeroed()
        }
    }
}

/// Implements `proc_handler`. Process context.
///
/// # Safety
///
/// The caller passes a description that [`Sysctl::table`] made for an `F`, and a buffer of `*len`
/// initialised bytes. No other code uses `buffer`, `len` and `pos` during the call.
unsafe extern "C" fn handle<F: TextSysctl>(
    table: *const k::ctl_table,
    write: c_int,
    buffer: *mut c_void,
    len: *mut usize,
    pos: *mut k::loff_t,
) -> c_int {
    // SAFETY: By the safety requirements `Sysctl::table` stored the address of a static `F`.
    let file = unsafe { &*(*table).data.cast::<F>().cast_const() };
    // SAFETY: By the safety requirements the pointers are valid, and no other code uses them.
    let (len, pos) = unsafe { (&mut *len, &mut *pos) };
    // SAFETY: By the safety requirements `buffer` has `*len` initialised bytes, and no other code
    // uses it.
    let buffer = unsafe { core::slice::from_raw_parts_mut(buffer.cast::<u8>(), *len) };
    if write != 0 {
        return file.write(buffer).map_or_else(Error::to_errno, |()| 0);
    }
    let from = usize::try_from(*pos).unwrap_or(usize::MAX);
    *len = copy_from(file.line().as_bytes(), from, buffer);
    // CAST: At most the length of a line.
    *pos = pos.saturating_add(*len as k::loff_t);
    0
}

/// Copies the bytes of `line` from `from` on to `buffer`, as many as fit. Returns their number.
fn copy_from(line: &[u8], from: usize, buffer: &mut [u8]) -> usize {
    text::copy(buffer, line.get(from..).unwrap_or_default())
}

/// Keeps sysctls registered. Dropping the value waits for threads that are reading or writing a
/// file.
///
/// # Invariants
///
/// `header` is that of a registered table, whose entries are `table`.
pub(crate) struct Registration {
    header: NonNull<k::ctl_table_header>,
    _table: KVec<k::ctl_table>,
}

// SAFETY: Any thread may unregister the table, which is the only operation.
unsafe impl Send for Registration {}
// SAFETY: No operation takes a shared reference.
unsafe impl Sync for Registration {}

impl Registration {
    /// Registers `entries` in the directory `path` below `/proc/sys`, which is created if there is
    /// none. Process context, may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if one of the names exists already.
    pub(crate) fn new(path: &'static CStr, entries: &[&[&'static dyn Sysctl]]) -> Result<Self> {
        let mut table = KVec::new();
        for entry in entries.iter().copied().flatten() {
            table.push(entry.table(), GFP_KERNEL)?;
        }
        // SAFETY: The path ends in a NUL, and the table has `table.len()` entries. By the
        // safety requirements of `Sysctl` they are valid. They are neither moved nor freed before
        // the table is unregistered.
        let header =
            unsafe { raw::register_sysctl_sz(path.as_char_ptr(), table.as_ptr(), table.len()) };
        // INVARIANT: `register_sysctl_sz` returned the header for `table`.
        Ok(Self {
            header: NonNull::new(header).ok_or(ENOMEM)?,
            _table: table,
        })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the header is registered. The call waits for users of the
        // table, which is freed after it.
        unsafe { raw::unregister_sysctl_table(self.header.as_ptr()) };
    }
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_sysctl)]
mod tests {
    use super::*;

    #[test]
    fn only_the_words_of_the_list_are_taken() {
        let choice = EnumSysctl::new(c"test", &["1", "2", "auto"], 2);
        assert_eq!(choice.line().as_bytes(), b"auto\n");
        for (text, number) in [("1\n", 0), ("2", 1), (" auto \n", 2)] {
            assert!(choice.write(text.as_bytes()).is_ok());
            assert_eq!(choice.get(), number);
        }
        for text in ["", "\n", "3", "aut", "auto auto", "12"] {
            assert!(choice.write(text.as_bytes()).is_err());
            assert_eq!(choice.get(), 2);
        }
    }

    #[test]
    fn addresses_are_read_as_they_were_written() {
        let list = AddrSysctl::new(c"test");
        assert_eq!(list.line().as_bytes(), b"\n");
        for (text, line) in [
            ("192.0.2.1\n", "192.0.2.1\n"),
            (" 192.0.2.1, 2001:db8::1 ,\n", "192.0.2.1,2001:db8::1\n"),
            ("\n", "\n"),
        ] {
            assert!(list.write(text.as_bytes()).is_ok());
            assert_eq!(list.line().as_bytes(), line.as_bytes());
        }
    }

    #[test]
    fn only_addresses_of_a_host_are_taken() {
        let list = AddrSysctl::new(c"test");
        assert!(list.write(b"192.0.2.1,192.0.2.2").is_ok());
        let bad = "x|1.2.3.256|::1 ::2|0.0.0.0|::1,::|::1,::ffff:0.0.0.0|\u{fc}|\
                   1::,1::,1::,1::,1::,1::,1::,1::,1::";
        for text in bad.split('|') {
            assert!(list.write(text.as_bytes()).is_err());
        }
        assert_eq!(list.line().as_bytes(), b"192.0.2.1,192.0.2.2\n");
        assert_eq!(list.get().count(), 2);
    }

    #[test]
    fn the_longest_list_fits_a_line() {
        let list = AddrSysctl::new(c"test");
        let text = [*b"2001:db8:1111:2222:3333:4444:5555:6666,"; ADDRS];
        assert!(list.write(text.as_flattened()).is_ok());
        assert_eq!(list.line().as_bytes().len(), text.as_flattened().len());
    }

    #[test]
    fn a_counter_is_the_sum_of_its_lanes() {
        let counter = Counter::new(c"test");
        for lane in 0..3 * LANES {
            counter.add(lane, 2);
        }
        counter.add(usize::MAX, 1);
        assert_eq!(counter.get(), 6 * LANES as u64 + 1);
        counter.reset();
        assert_eq!(counter.get(), 0);
    }

    #[test]
    fn the_largest_number_fits_a_line() {
        let counter = Counter::new(c"test");
        counter.add(0, u64::MAX);
        assert_eq!(counter.line().as_bytes(), b"18446744073709551615\n");
    }

    #[test]
    fn a_line_is_read_in_parts() {
        let mut buffer = [0u8; 3];
        assert_eq!(copy_from(b"1234\n", 0, &mut buffer), 3);
        assert_eq!(&buffer, b"123");
        assert_eq!(copy_from(b"1234\n", 3, &mut buffer), 2);
        assert_eq!(&buffer, b"4\n3");
        assert_eq!(copy_from(b"1234\n", 5, &mut buffer), 0);
        assert_eq!(copy_from(b"1234\n", usize::MAX, &mut buffer), 0);
    }
}
