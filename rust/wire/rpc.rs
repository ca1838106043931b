// SPDX-License-Identifier: GPL-2.0

//! The header of an RPC call, as far as a transport has to know it (RFC 5531 section 9).
//!
//! ```text
//!  0  xid  direction=0  rpcvers  prog
//! 16  vers  proc  credential: flavor  length
//! 32  credential body, verifier: flavor  length  body
//! ```

/// The longest body of a credential or verifier in bytes (RFC 5531 section 8.2).
const MAX_AUTH: u32 = 400;
/// Where the credential begins.
const CREDENTIAL: usize = 24;
/// The flavor RPCSEC_GSS, and its services that wrap the arguments (RFC 2203 section 5).
const RPCSEC_GSS: u32 = 6;
const INTEGRITY: u32 = 2;
const PRIVACY: u32 = 3;

/// The header of an RPC call, which ends where the arguments begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallHeader {
    /// Bytes up to the end of the verifier, where the arguments begin.
    pub len: u32,
    /// The arguments have no data item that a chunk could carry: RPCSEC_GSS wraps them for
    /// integrity or privacy, or they are its own.
    pub wrapped: bool,
}

impl CallHeader {
    /// Reads the header of the call at the start of `rpc`. Returns `None` if `rpc` ends within its
    /// lengths, or if a body is longer than the protocol allows. `len` may be more than `rpc` has.
    #[inline(always)]
    pub fn peek(rpc: &[u8]) -> Option<Self> {
        let (flavor, verifier) = opaque_auth(rpc, CREDENTIAL)?;
        let (_, len) = opaque_auth(rpc, verifier)?;
        Some(Self {
            // CAST: less than 2 * MAX_AUTH and a few words.
            len: len as u32,
            wrapped: flavor == RPCSEC_GSS && is_wrapped(rpc),
        })
    }
}

/// Reads the `opaque_auth` at byte `at`. Returns its flavor, and its end with its XDR padding.
#[inline(always)]
fn opaque_auth(rpc: &[u8], at: usize) -> Option<(u32, usize)> {
    let body = at.saturating_add(8);
    let words = u64::from_be_bytes(*rpc.get(at..body)?.first_chunk()?);
    // CAST: the halves of two words.
    let (flavor, len) = ((words >> 32) as u32, words as u32);
    if len > MAX_AUTH {
        return None;
    }
    // CAST: a small number.
    Some((
        flavor,
        body.saturating_add(len.next_multiple_of(4) as usize),
    ))
}

/// Returns whether the arguments of a call with a credential of RPCSEC_GSS have no data item. The
/// body of the credential has version, procedure, sequence number and service.
#[cold]
fn is_wrapped(rpc: &[u8]) -> bool {
    let body = rpc.get(36..).and_then(|rest| rest.first_chunk());
    // The procedure DATA has number zero.
    let plain = body.is_some_and(|&[p0, p1, p2, p3, _, _, _, _, s0, s1, s2, s3]: &[u8; 12]| {
        let service = u32::from_be_bytes([s0, s1, s2, s3]);
        [p0, p1, p2, p3] == [0; 4] && !matches!(service, INTEGRITY | PRIVACY)
    });
    !plain
}
