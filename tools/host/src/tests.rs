// SPDX-License-Identifier: GPL-2.0

//! Tests of `wire` and `proto` on the host.

mod crowd;
mod decisions;
mod gen;
mod golden;
mod models;
mod v1;
mod v2;
