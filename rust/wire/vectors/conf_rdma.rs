// SPDX-License-Identifier: GPL-2.0

//! Arguments and results of CONF_RDMA, RFC 5666 section 6.2.

use super::super::conf_rdma::{Reply, Request, CONF_RDMA, PROGRAM, VERSION};
use super::super::What;
use super::ensure;

/// maxcall_sendsize 4096, maxreply_sendsize 1024, maxrdmaread 16.
const REQUEST: [u8; 12] = [0, 0, 0x10, 0, 0, 0, 4, 0, 0, 0, 0, 16];

/// maxcall_sendsize 2048, align 4096, maxrdmaread 0.
const REPLY: [u8; 12] = [0, 0, 8, 0, 0, 0, 0x10, 0, 0, 0, 0, 0];

/// Runs the vectors.
///
/// # Errors
///
/// The name of the first vector that fails.
//~ 5666-6-2 may use Connection Configuration Protocol
pub fn check() -> Result<(), &'static str> {
    let request = Request {
        maxcall_sendsize: 4096,
        maxreply_sendsize: 1024,
        maxrdmaread: 16,
    };
    let reply = Reply {
        maxcall_sendsize: 2048,
        align: 4096,
        maxrdmaread: 0,
    };
    ensure!(request.encode() == REQUEST, "conf request");
    ensure!(Request::decode(&REQUEST) == Ok(request), "conf request");
    ensure!(Reply::decode(&REPLY) == Ok(reply), "conf reply");
    for n in 0..REPLY.len() {
        let short = REPLY.get(..n).unwrap_or_default();
        let (a, b) = (Request::decode(short), Reply::decode(short));
        ensure!(a.is_err_and(|e| e.what == What::Truncated), "conf short");
        ensure!(b.is_err_and(|e| e.what == What::Truncated), "conf short");
    }
    let long = Reply::decode(&[0; 16]);
    ensure!(
        long.is_err_and(|e| e.what == What::Trailing && e.offset == 12),
        "conf trailing"
    );
    ensure!((PROGRAM, VERSION, CONF_RDMA) == (100_417, 1, 1), "conf ids");
    Ok(())
}
