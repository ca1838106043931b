// SPDX-License-Identifier: GPL-2.0

//! The life of one RPC: its slot, its call, and its reply.

pub(super) mod fence;
pub(super) mod give_up;
pub(super) mod prepare;
pub(super) mod reply;
pub(super) mod send;
pub(super) mod slot;
pub(super) mod table;

mod chunks;
mod contents;
