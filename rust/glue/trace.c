// SPDX-License-Identifier: GPL-2.0
/*
 * Gives the trace events of <trace/events/rpcrdma_rs.h> their bodies, and Rust
 * one function for each to call: rust_do_trace_NAME().
 */
#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include <trace/events/rpcrdma_rs.h>
