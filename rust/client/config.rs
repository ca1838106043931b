// SPDX-License-Identifier: GPL-2.0

//! Tunables, and the sizes that follow from them and from the limits of a device.

use core::net::IpAddr;

use kernel::page::PAGE_SIZE;
use kernel::prelude::*;

use crate::compat::casts::u32_as_usize;
use crate::conn::connection::{Demand, Queues};
use crate::mem::SockAddr;
use crate::proto::backward;
use crate::proto::session::{least_receive, size, SPARE_RECEIVES};
use crate::proto::version::Setting;
use crate::rdma::device::Limits;
use crate::rdma::qp::holds_chain;
use crate::sunrpc::sysctl::{AddrSysctl, EnumSysctl, IntSysctl, Sysctl};
use crate::sunrpc::time::seconds;
use crate::wire::cm_private::{Settings, Size, Versions};

/// Sizes and counts of one transport. Lengths are in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    /// Request slots: the maximum number of RPCs in flight, and the credits that calls request.
    pub(crate) slots: u32,
    /// The longest message that we send inline, transport header included.
    pub(crate) inline_send: u32,
    /// The longest message that we receive inline, transport header included.
    pub(crate) inline_receive: u32,
    /// The version that is tried first.
    pub(crate) version: Setting,
}

/// The slots of a new transport.
pub(super) static SLOTS: IntSysctl = IntSysctl::new(c"rdma_slot_table_entries", 128, 4, 16384);
static INLINE_READ: IntSysctl = IntSysctl::new(c"rdma_max_inline_read", 4096, 1024, 65536);
static INLINE_WRITE: IntSysctl = IntSysctl::new(c"rdma_max_inline_write", 4096, 1024, 65536);
/// Connections at work use a larger size where nobody has set one.
static INLINE_AUTO: IntSysctl = IntSysctl::new(c"rdma_inline_auto", 1, 0, 1);
/// The version that is tried first: see [`Setting`].
static VERSION: EnumSysctl = EnumSysctl::new(c"rdma_version", &["1", "2", "auto"], 2);
/// The largest alignment in bytes for the payload of an inline call. The payload is not aligned if
/// this is 0, or if the server does not ask for an alignment.
pub(super) static PADDING: IntSysctl = IntSysctl::new(c"rdma_inline_write_padding", 0, 0, 4096);
/// The traffic class of a connection's packets; -1 for the default of the device's port.
pub(super) static TRAFFIC_CLASS: IntSysctl = IntSysctl::new(c"rdma_traffic_class", -1, -1, 255);
/// The local addresses of connections; none for those that the routes select.
static LOCAL_ADDRS: AddrSysctl = AddrSysctl::new(c"rdma_local_addrs");
/// This tunable has no effect, as in the stock module; scripts may set it.
static MEMREG: IntSysctl = IntSysctl::new(c"rdma_memreg_strategy", 5, 0, 6);
/// This tunable has no effect, as in the stock module; scripts may set it.
static PAD_OPTIMIZE: IntSysctl = IntSysctl::new(c"rdma_pad_optimize", 0, i32::MIN, i32::MAX);

/// The directory of [`KNOBS`] below `/proc/sys`.
pub(crate) const SYSCTL_PATH: &CStr = c"sunrpc";

/// The tunables: names, defaults and ranges of the stock module, and those that only this module
/// has.
pub(crate) static KNOBS: [&dyn Sysctl; 10] = [
    &SLOTS,
    &INLINE_READ,
    &INLINE_WRITE,
    &INLINE_AUTO,
    &PADDING,
    &MEMREG,
    &PAD_OPTIMIZE,
    &TRAFFIC_CLASS,
    &LOCAL_ADDRS,
    &VERSION,
];

impl Config {
    /// Makes the configuration, as it is tuned now, of the next connection of a transport with this
    /// number of slots, or of one that is at work in version two.
    pub(crate) fn new(slots: u32, is_at_work: bool) -> Self {
        let automatic = is_at_work && INLINE_AUTO.get() != 0;
        Self {
            slots,
            inline_send: size(INLINE_WRITE.get(), automatic),
            inline_receive: size(INLINE_READ.get(), automatic),
            version: match VERSION.get() {
                0 => Setting::One,
                1 => Setting::Two,
                _ => Setting::Auto,
            },
        }
    }

    /// Returns the size of the Receives to post, in bytes.
    pub(crate) const fn receive_size(&self) -> u32 {
        least_receive(self.version.may_use_two(), self.inline_receive)
    }

    /// Returns the settings that we announce in the CM private data (RFC 8797 section 4).
    pub(crate) const fn announce(&self) -> Settings {
        Settings {
            remote_invalidation: true,
            send: Size::from_bytes(self.inline_send),
            receive: Size::from_bytes(self.inline_receive),
            versions: match self.version {
                Setting::One => None,
                Setting::Two | Setting::Auto => Some(Versions::ALL),
            },
        }
    }
}

/// Seconds for which all transports begin with their own turn, shifted by the same number, while
/// the server answers at no address. They are more than the times between the attempts of two
/// transports, so that most of a mount's transports find the server in the same period.
const PERIOD: usize = 64;

/// Returns the local addresses of the family of `peer`, beginning with the one whose turn is
/// number `turn`. After some `misses`, attempts without an answer, it begins with a later one.
pub(super) fn local_addrs(
    peer: &SockAddr,
    turn: u32,
    misses: u32,
) -> impl Iterator<Item = SockAddr> {
    let counts = (u32_as_usize(turn), u32_as_usize(misses));
    in_turn(LOCAL_ADDRS.get(), peer.family(), counts, seconds() / PERIOD)
}

/// Once each address has had an attempt, it is the server that is away. If each transport went on
/// to count its own attempts, whose times are random, the mount would come back unbalanced.
fn in_turn(
    ips: impl Iterator<Item = IpAddr> + Clone,
    family: u16,
    (turn, misses): (usize, usize),
    period: usize,
) -> impl Iterator<Item = SockAddr> {
    let addrs = ips.map(|ip| SockAddr::new(ip, 0));
    let usable = addrs.filter(move |addr| addr.family() == family);
    let count = usable.clone().count();
    let shift = if misses < count { misses } else { period };
    let first = turn.wrapping_add(shift).checked_rem(count).unwrap_or(0);
    usable.cycle().skip(first).take(count)
}

/// The maximum number of segments in a chunk that we offer. With all segments of a call, the header
/// still fits an inline threshold of 1024 bytes.
pub(crate) const MAX_SEGMENTS: u32 = 16;

/// The largest payload of an RPC in bytes: 1 MiB and one page, since a payload need not start on a
/// page boundary.
pub(crate) const MAX_PAYLOAD: usize = (1 << 20) + PAGE_SIZE;

/// The pages of such a payload.
// CAST: a small constant.
pub(super) const MAX_PAYLOAD_PAGES: u32 = (MAX_PAYLOAD / PAGE_SIZE) as u32;

/// Pages of head and tail of the message around a payload.
const AROUND_PAYLOAD: u32 = 3;

/// The pages of the longest results whose length no tunable of NFS limits: an extended attribute of
/// 64 KiB, and one more page. The addresses of a pNFS device may be longer: on an RDMA device with
/// regions this small, that call fails and the client uses the metadata server.
// CAST: a small constant.
const LEAST_PAYLOAD_PAGES: u32 = ((1 << 16) / PAGE_SIZE) as u32 + 1;

/// Receives for calls of the server and Sends for the replies, and both for the messages of the
/// session. They exist from the start, because the connection is made before NFS asks for a
/// callback service.
const BACKWARD: u32 = backward::CREDITS + SPARE_RECEIVES;
/// Work requests of probes, one at a time.
const PROBES: u32 = 1;

/// The maximum number of work requests in a chain: the registrations of a call with two chunks of
/// [`MAX_SEGMENTS`] segments each, and its Send.
const LONGEST_CHAIN: u32 = 2 * MAX_SEGMENTS + 1;

/// The sizes of a connection's memory regions and queues on a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// The pages that one memory region maps.
    pub(super) mr_depth: u32,
    /// The pages of the largest payload, at most [`MAX_PAYLOAD_PAGES`].
    payload_pages: u32,
    /// The lengths of the queues.
    pub(super) queues: Queues,
}

/// Why a device cannot be used, as logged: it lacks `IB_DEVICE_MEM_MGT_EXTENSIONS`.
const NO_FAST_REGISTRATION: &str = "it has no fast memory registration";
/// [`MAX_SEGMENTS`] memory regions do not hold the payload that NFS may use, with head and tail.
pub(super) const REGIONS_TOO_SMALL: &str =
    "its memory regions are too small, or lack this page size";
/// The queues cannot hold a single request, or the send queue cannot hold the longest chain.
const QUEUES_TOO_SHORT: &str = "its queues are too short";

impl Sizes {
    /// Fits `config` to a device. The send queue gets `more_send_wr` work requests more than calls
    /// and probes take. Small memory regions reduce the largest payload.
    ///
    /// # Errors
    ///
    /// The deficiency of the device, as logged.
    pub(super) fn new(
        config: &Config,
        limits: &Limits,
        more_send_wr: u32,
    ) -> Result<Self, &'static str> {
        if !limits.mem_mgt_extensions {
            return Err(NO_FAST_REGISTRATION);
        }
        let mr_depth = limits.max_frmr_depth.min(MAX_PAYLOAD_PAGES);
        // Head and tail of a message are not contiguous with the payload, so they have regions of
        // their own.
        let payload_pages = MAX_PAYLOAD_PAGES.min((MAX_SEGMENTS - 2) * mr_depth);
        if payload_pages < LEAST_PAYLOAD_PAGES {
            return Err(REGIONS_TOO_SMALL);
        }
        let demand = Demand {
            credits: config.slots,
            send_wr_per_credit: send_wr_per_request(mr_depth, payload_pages),
            backward: BACKWARD,
            extra_send_wr: PROBES + more_send_wr,
            receive_batch: None,
        };
        let fit = demand.fit(limits);
        let queues = fit.filter(|queues| holds_chain(queues.send_wr, LONGEST_CHAIN));
        let queues = queues.ok_or(QUEUES_TOO_SHORT)?;
        Ok(Self {
            mr_depth,
            payload_pages,
            queues,
        })
    }

    /// Returns the size of the largest payload in bytes. Below the maximum it is one page less than
    /// the regions hold, because a payload may start within a page.
    pub(super) fn max_payload(&self) -> usize {
        let pages = match self.payload_pages {
            MAX_PAYLOAD_PAGES => MAX_PAYLOAD_PAGES,
            fewer => fewer - 1,
        };
        pages as usize * PAGE_SIZE
    }
}

/// Returns the work requests of one RPC on the send queue: the Send, and one registration and one
/// invalidation for each region. Besides the regions of the payload there is one for the other
/// direction, and one more for a payload that starts within a page.
const fn send_wr_per_request(mr_depth: u32, payload_pages: u32) -> u32 {
    let regions = (payload_pages + AROUND_PAYLOAD).div_ceil(mr_depth);
    2 * (regions + 2) + 1
}

#[cfg(all(RPCRDMA_KUNIT, CONFIG_KUNIT = "y"))]
#[kernel::prelude::kunit_tests(rpcrdma_client_config)]
mod tests {
    use super::*;
    use crate::proto::version::Setting;
    use crate::rdma::cq::DRAIN_ENTRIES;
    use crate::rdma::qp::DRAIN_SEND_WRS;

    const CONFIG: Config = Config {
        slots: 128,
        inline_send: 4096,
        inline_receive: 4096,
        version: Setting::Auto,
    };

    #[test]
    fn each_turn_begins_with_the_next_address_of_the_family() {
        let [a, b, c] = [[192, 0, 2, 1], [192, 0, 2, 2], [192, 0, 2, 3]].map(IpAddr::from);
        let six = IpAddr::from([1; 16]);
        let of = |ips: &[IpAddr], like: IpAddr, turn: usize, wanted: &[IpAddr]| {
            let family = SockAddr::new(like, 0).family();
            let found = in_turn(ips.iter().copied(), family, (turn, 0), 1);
            let wanted = wanted.iter().map(|ip| SockAddr::new(*ip, 0).ip());
            assert!(found.map(|addr| addr.ip()).eq(wanted));
        };
        let list = [a, six, b, c];
        of(&list, a, 0, &[a, b, c]);
        of(&list, a, 1, &[b, c, a]);
        of(&list, a, 5, &[c, a, b]);
        of(&list, a, usize::MAX, &[a, b, c]);
        of(&list, six, 1, &[six]);
        of(&[a, b], six, 1, &[]);
        of(&[], a, 7, &[]);
    }

    #[test]
    fn transports_keep_their_distance_while_the_server_is_away() {
        let ips = [[192, 0, 2, 1], [192, 0, 2, 2]].map(IpAddr::from);
        let first = |turn, misses, period| {
            let family = SockAddr::new(ips[0], 0).family();
            let mut found = in_turn(ips.iter().copied(), family, (turn, misses), period);
            found.next().map(|addr| addr.ip()) == Some(SockAddr::new(ips[0], 0).ip())
        };
        // An attempt without an answer is followed by one from the other address.
        assert!(first(0, 0, 7) && !first(0, 1, 7) && first(1, 1, 7));
        // Later the number of attempts does not matter, and every address has a period.
        for (misses, others) in [(2, 2), (3, 8), (9, 2)] {
            for period in [6, 7] {
                assert_eq!(first(0, misses, period), period == 6);
                assert!(first(0, misses, period) != first(1, others, period));
            }
        }
    }

    fn device(max_qp_wr: u32, max_frmr_depth: u32, max_cqe: u32) -> Limits {
        Limits {
            max_qp_wr,
            reads_need_regions: false,
            max_sge: 30,
            max_read_sge: 30,
            max_frmr_depth,
            max_qp_rd_atom: 16,
            max_qp_init_rd_atom: 16,
            max_cqe,
            mem_mgt_extensions: true,
            sg_gaps: false,
            slow_mapping: false,
        }
    }

    /// Fits `slots` to a device, and checks that nothing exceeds the limits of the device.
    fn fit(slots: u32, limits: Limits) -> Queues {
        let config = Config { slots, ..CONFIG };
        let Ok(fit) = Sizes::new(&config, &limits, 0) else {
            panic!("{limits:?} is found unfit");
        };
        let fit = fit.queues;
        assert!(fit.send_wr + DRAIN_SEND_WRS <= limits.max_qp_wr);
        assert!(fit.receives < limits.max_qp_wr);
        assert!(fit.send_wr + fit.receives + DRAIN_ENTRIES <= limits.max_cqe);
        assert!((1..=slots).contains(&fit.credits));
        // There is a Receive for each credit and for each call of the server.
        assert!(fit.receives >= fit.credits + BACKWARD);
        assert!((1..=fit.credits).contains(&fit.receive_batch));
        // The longest call is sent as soon as the other calls have completed.
        assert!(holds_chain(fit.send_wr, 33));
        fit
    }

    #[test]
    fn common_devices_give_all_slots_a_credit() {
        // About what mlx5, mlx4, irdma, cxgb4, siw and rxe report.
        for (max_qp_wr, depth, max_cqe) in [
            (32_768, 65_536, 4_194_303),
            (16_351, 511, 65_408),
            (32_767, 262_144, 1_048_574),
            (8_191, 128, 65_535),
            (32_768, 256, 102_400),
            (1_048_576, 512, 32_767),
        ] {
            assert_eq!(fit(128, device(max_qp_wr, depth, max_cqe)).credits, 128);
        }
    }

    #[test]
    fn short_queues_mean_fewer_credits() {
        assert!(fit(128, device(512, 256, 65_535)).credits < 128);
        assert!(fit(128, device(16_384, 256, 512)).credits < 128);
        fit(16_384, device(32_768, 65_536, 4_194_303));
        // Room for the longest call.
        for slots in [4, 16_384] {
            fit(
                slots,
                device(DRAIN_SEND_WRS + 3 * 9 + BACKWARD + PROBES, 256, 65_535),
            );
        }
    }

    #[test]
    fn device_that_is_used_has_room_for_the_longest_call() {
        for max_qp_wr in 0..200 {
            let limits = device(max_qp_wr, 256, 65_535);
            if let Ok(found) = Sizes::new(&CONFIG, &limits, 0) {
                assert!(holds_chain(found.queues.send_wr, 33));
            }
        }
    }

    #[test]
    fn small_regions_are_more_in_number() {
        for depth in [2, 16, 19, 32, 256, 257, 65_536] {
            let limits = device(32_768, depth, 65_535);
            fit(128, limits);
            let Ok(fit) = Sizes::new(&CONFIG, &limits, 0) else {
                panic!("{limits:?} is found unfit");
            };
            assert!(fit.payload_pages.div_ceil(fit.mr_depth) + 2 <= MAX_SEGMENTS);
            assert!((fit.max_payload() == MAX_PAYLOAD) == (14 * depth >= MAX_PAYLOAD_PAGES));
            assert!(fit.max_payload() > 1 << 16);
        }
    }

    #[test]
    fn what_a_device_lacks_is_said() {
        let unfit = |limits: Limits| Sizes::new(&CONFIG, &limits, 0).err();
        let good = device(32_768, 256, 65_535);
        let without = Limits {
            mem_mgt_extensions: false,
            ..good
        };
        assert_eq!(unfit(without), Some(NO_FAST_REGISTRATION));
        // With pages of 64 KiB, regions of one page hold the shortest payload.
        for depth in 0..3 {
            let small = (14 * depth < LEAST_PAYLOAD_PAGES).then_some(REGIONS_TOO_SMALL);
            assert_eq!(unfit(device(32_768, depth, 65_535)), small);
        }
        for (max_qp_wr, max_cqe) in [(0, 65_535), (16, 65_535), (32_768, 0), (32_768, 40)] {
            let short = device(max_qp_wr, 256, max_cqe);
            assert_eq!(unfit(short), Some(QUEUES_TOO_SHORT));
        }
    }
}
