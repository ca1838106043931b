// SPDX-License-Identifier: GPL-2.0

//! Items of the `kernel` crate that differ between the supported series of Linux.
//!
//! Names and signatures are those of the newest series, whose items this room only re-exports. For
//! older series it defines the items that they lack. The Kbuild chooses by the version of the
//! kernel tree: `RPCRDMA_BEFORE_7_3` and so on. `Documentation/kernel-range.rst` lists the
//! differences.
//!
//! Every room but `wire` and `proto` may use this one.

#[cfg(not(RPCRDMA_BEFORE_7_3))]
mod newest;
#[cfg(RPCRDMA_BEFORE_7_3)]
#[path = "compat/before_7_3.rs"]
mod newest;

pub(crate) use newest::*;
