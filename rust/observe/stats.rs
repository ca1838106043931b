// SPDX-License-Identifier: GPL-2.0

//! Counters of one transport, and its line in `/proc/self/mountstats`.
