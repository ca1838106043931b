// SPDX-License-Identifier: GPL-2.0

//! Jiffies, beyond `kernel::time`.

use kernel::bindings as k;
use kernel::time::{msecs_to_jiffies, Jiffies};

use crate::compat::casts::u32_as_usize;

/// Jiffies in a second. Not `bindings::HZ`: of the macro's two definitions bindgen takes the
/// definition for user space, which is always 100.
pub(super) const HZ: Jiffies = u32_as_usize(k::CONFIG_HZ);

/// Returns the current time, in jiffies.
#[inline]
pub(super) fn now() -> Jiffies {
    // SAFETY: `jiffies` is a static of the kernel. It changes concurrently, so the read is
    // volatile.
    unsafe { (&raw const k::jiffies).read_volatile() }
}

/// Returns the current time, in seconds since an arbitrary moment.
pub(crate) fn seconds() -> usize {
    now() / HZ
}

/// Converts seconds to jiffies.
pub(super) fn secs(n: u32) -> Jiffies {
    msecs_to_jiffies(n.saturating_mul(1000))
}

/// Returns whether the time `a` is before `b`. Times up to half of the range apart compare
/// correctly.
pub(super) fn is_before(a: Jiffies, b: Jiffies) -> bool {
    a.wrapping_sub(b) > Jiffies::MAX / 2
}

/// Returns the jiffies from now until `then`; 0 if `then` has passed.
pub(super) fn until(then: Jiffies) -> Jiffies {
    let now = now();
    if is_before(then, now) {
        0
    } else {
        then.wrapping_sub(now)
    }
}

/// Returns the milliseconds from `since` to `then`.
pub(super) fn millis(since: Jiffies, then: Jiffies) -> u32 {
    let jiffies = then.wrapping_sub(since);
    u32::try_from(jiffies.saturating_mul(1000) / HZ).unwrap_or(u32::MAX)
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_sunrpc_time)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_hz_jiffies() {
        assert_eq!(secs(1), HZ);
        assert_eq!(secs(300), 300 * HZ);
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
            assert!(millis(7, 7 + msecs_to_jiffies(ms)) >= ms);
            assert!(millis(7, 7 + msecs_to_jiffies(ms)) < ms + 1000 / HZ as u32 + 1);
        }
        assert_eq!(
            millis(usize::MAX, msecs_to_jiffies(500).wrapping_sub(1)),
            500
        );
        assert_eq!(millis(0, usize::MAX), u32::MAX);
    }

    #[test]
    fn no_time_remains_until_the_past() {
        assert_eq!(until(now().wrapping_sub(1)), 0);
        assert!(until(now().wrapping_add(10 * HZ)) > 5 * HZ);
    }
}
