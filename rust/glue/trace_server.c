// SPDX-License-Identifier: GPL-2.0
/*
 * Defines the trace events of <trace/events/rpcrdma_svc_rs.h>, and for each of them a
 * function that Rust calls: rust_do_trace_NAME().
 */
#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include <trace/events/rpcrdma_svc_rs.h>
