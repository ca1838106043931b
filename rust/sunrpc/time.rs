// SPDX-License-Identifier: GPL-2.0

//! Jiffies.

use kernel::bindings as k;

/// Jiffies in a second. Not `bindings::HZ`: of the macro's two definitions bindgen takes the one
/// for user space, which is 100 whatever the kernel's is.
// CAST: `usize` has at least 32 bits.
pub(super) const HZ: usize = k::CONFIG_HZ as usize;

/// Returns the current time, in jiffies.
#[inline]
pub(super) fn now() -> usize {
    // SAFETY: `jiffies` is a static of the kernel. It changes concurrently, so the read is
    // volatile.
    unsafe { (&raw const k::jiffies).read_volatile() }
}

/// Returns the current time, in seconds since an arbitrary moment.
pub(crate) fn seconds() -> usize {
    now() / HZ
}

/// Returns whether the time `a`, in jiffies, is before `b`. Times up to half of the range apart
/// compare correctly.
#[inline]
pub(super) fn is_before(a: usize, b: usize) -> bool {
    a.wrapping_sub(b) > usize::MAX / 2
}

/// Returns the jiffies from now until `then`; 0 if `then` has passed.
pub(super) fn until(then: usize) -> usize {
    let now = now();
    if is_before(then, now) {
        0
    } else {
        then.wrapping_sub(now)
    }
}

/// Returns the milliseconds from `since` to `then`, both in jiffies.
pub(super) fn millis(since: usize, then: usize) -> u32 {
    let jiffies = then.wrapping_sub(since);
    u32::try_from(jiffies.saturating_mul(1000) / HZ).unwrap_or(u32::MAX)
}

/// Converts milliseconds to jiffies, at least one unless `millis` is 0.
pub(super) fn jiffies(millis: u32) -> usize {
    // CAST: `usize` has at least 32 bits.
    (millis as usize).saturating_mul(HZ).div_ceil(1000)
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_sunrpc_time)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_hz_jiffies() {
        assert_eq!(kernel::time::msecs_to_jiffies(1000), HZ);
    }

    #[test]
    fn times_compare_across_the_wrap() {
        for (a, b) in [(1, 2), (usize::MAX, 0), (usize::MAX - 5, 5)] {
            assert!(is_before(a, b));
            assert!(!is_before(b, a));
        }
        assert!(!is_before(7, 7));
    }

    #[test]
    fn milliseconds_convert_to_jiffies_and_back() {
        for ms in [0, 1, 999, 1000, 15_000, 86_400_000] {
            assert!(millis(7, 7 + jiffies(ms)) >= ms);
            assert!(millis(7, 7 + jiffies(ms)) < ms + 1000 / HZ as u32 + 1);
        }
        assert_eq!(millis(usize::MAX, jiffies(500).wrapping_sub(1)), 500);
        assert_eq!(millis(0, usize::MAX), u32::MAX);
    }

    #[test]
    fn no_time_remains_until_the_past() {
        assert_eq!(until(now().wrapping_sub(1)), 0);
        assert!(until(now().wrapping_add(10 * HZ)) > 5 * HZ);
    }
}
