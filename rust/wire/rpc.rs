// SPDX-License-Identifier: GPL-2.0

//! The header of an RPC call, as far as a transport needs it (RFC 5531 section 9).
//!
//! ```text
//!  0  xid  direction=0  rpcvers  prog
//! 16  vers  proc  credential: flavor  length
//! 32  credential body, verifier: flavor  length  body
//! ```

/// The longest body of a credential or verifier in bytes (RFC 5531 section 8.2).
const MAX_AUTH: u32 = 400;
/// The offset of the credential.
const CREDENTIAL: usize = 24;
/// Bytes of a header whose credential and verifier have no bodies.
const FIXED: u32 = 40;
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
    /// integrity or privacy, or they are those of RPCSEC_GSS itself.
    pub wrapped: bool,
}

impl CallHeader {
    /// Reads the header of the call at the start of `rpc`. Returns `None` if `rpc` ends within its
    /// lengths, or if a body is longer than the protocol allows. `len` may be more than `rpc` has.
    #[inline(always)]
    pub fn peek(rpc: &[u8]) -> Option<Self> {
        let (flavor, credential, rest) = opaque_auth(rpc.get(CREDENTIAL..)?)?;
        // CAST: at most MAX_AUTH.
        let (_, verifier, _) = opaque_auth(rest.get(credential as usize..)?)?;
        Some(Self {
            // Two numbers of at most MAX_AUTH each.
            len: FIXED.wrapping_add(credential).wrapping_add(verifier),
            wrapped: flavor == RPCSEC_GSS && is_wrapped(rpc),
        })
    }
}

/// Reads the flavor and the length of an `opaque_auth`. Returns the flavor, the length of the body
/// with its XDR padding, and the bytes from the body on.
#[inline(always)]
fn opaque_auth(bytes: &[u8]) -> Option<(u32, u32, &[u8])> {
    let (words, rest) = bytes.split_first_chunk()?;
    let words = u64::from_be_bytes(*words);
    // CAST: the halves of two words.
    let (flavor, len) = ((words >> 32) as u32, words as u32);
    // The sum cannot overflow.
    (len <= MAX_AUTH).then_some((flavor, len.wrapping_add(3) & !3, rest))
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
