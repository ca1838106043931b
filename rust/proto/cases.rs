// SPDX-License-Identifier: GPL-2.0

//! Checks of the decisions by table, for the KUnit suite and the host tests alike.
