// SPDX-License-Identifier: GPL-2.0

//! Golden bytes, written by hand from the XDR, for the KUnit suite and the host tests alike.
