// SPDX-License-Identifier: GPL-2.0

//! The life of one connection: the attempt to connect, its session, and its completions.

pub(super) mod connect;
pub(super) mod role;
pub(super) mod session;
