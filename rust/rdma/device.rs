// SPDX-License-Identifier: GPL-2.0

//! RDMA devices: their limits, leases, and removal.
//!
//! ```text
//!   ib_core removes a device ──► `Changed` of each Lease ──► wait until the last Lease is dropped
//! ```
//!
//! `ib_core` notifies its clients in the reverse order of registration. The connection manager has
//! registered before this module, so this happens before it destroys the device's cm_ids.

use kernel::alloc::NumaNode;
use kernel::prelude::*;
use kernel::types::Opaque;

use crate::compat::limit;
use crate::mem::PAGE;
use crate::raw as bindings;
use crate::text::StackString;

mod lease;
mod registration;

pub(crate) use lease::{Change, Lease};
pub(crate) use registration::Registration;

// CAST: flags, of types that bindgen chooses.
const MEM_MGT_EXTENSIONS: u64 = bindings::ib_device_cap_flags_IB_DEVICE_MEM_MGT_EXTENSIONS as u64;
const SG_GAPS: u64 = bindings::ib_kernel_cap_flags_IBK_SG_GAPS_REG as u64;

/// The limits and capabilities of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Number of work requests on either queue of a queue pair.
    pub(crate) max_qp_wr: u32,
    /// Number of scatter/gather entries of a work request of the send queue.
    pub(crate) max_sge: u32,
    /// Number of scatter/gather entries of an RDMA Read.
    pub(crate) max_read_sge: u32,
    /// Number of pages of a fast-registration memory region; 0 if the device lacks regions with
    /// the page size of this kernel.
    pub(crate) max_frmr_depth: u32,
    /// Number of RDMA Reads that a queue pair serves at the same time.
    pub(crate) max_qp_rd_atom: u8,
    /// Number of RDMA Reads that a queue pair can have outstanding.
    pub(crate) max_qp_init_rd_atom: u8,
    /// Number of entries of a completion queue.
    pub(crate) max_cqe: u32,
    /// Whether the device has fast registration, and local and remote invalidation
    /// (`IB_DEVICE_MEM_MGT_EXTENSIONS`).
    pub(crate) mem_mgt_extensions: bool,
    /// Whether memory regions may have gaps between pages (`IBK_SG_GAPS_REG`).
    pub(crate) sg_gaps: bool,
    /// Whether mapping a memory region may sleep, or take long. The driver of HiSilicon's hns
    /// allocates memory in `hns_roce_map_mr_sg()`. With an IOMMU, mapping allocates addresses and
    /// writes them to page tables.
    pub(crate) slow_mapping: bool,
    /// Whether RDMA Reads must place their bytes into registered memory, and can invalidate it: the
    /// device's ports speak iWARP.
    pub(crate) reads_need_regions: bool,
}

/// The name of a device at the time of [`Device::name`]; `IB_DEVICE_NAME_MAX` is 64.
pub(crate) type Name = StackString<64>;

/// An RDMA device (`struct ib_device`).
///
/// # Invariants
///
/// The device is registered while a reference to this type exists.
#[repr(transparent)]
pub(crate) struct Device(Opaque<bindings::ib_device>);

impl Device {
    /// Returns a reference to a device.
    ///
    /// # Safety
    ///
    /// `device` points to a device that is registered during `'a`.
    pub(super) unsafe fn from_raw<'a>(device: *const bindings::ib_device) -> &'a Self {
        // SAFETY: The caller promises a valid device; `Device` has the layout of `ib_device`.
        unsafe { &*device.cast() }
    }

    /// Returns the device for C functions.
    pub(super) fn as_ptr(&self) -> *mut bindings::ib_device {
        self.0.get()
    }

    /// Returns the limits of the device.
    pub(crate) fn limits(&self) -> Limits {
        let device = self.as_ptr();
        // SAFETY: By the type invariant the device is registered. Attributes and driver do not
        // change after registration.
        let (attrs, driver) = unsafe { (&(*device).attrs, (*device).ops.driver_id) };
        let flags = attrs.device_cap_flags;
        // SAFETY: By the type invariant the device is registered.
        let iwarp = unsafe { bindings::rr_ib_is_iwarp(device) };
        // SAFETY: By the type invariant the device is registered.
        let iommu = unsafe { bindings::rr_ib_uses_iommu(device) };
        Limits {
            max_qp_wr: limit(attrs.max_qp_wr),
            max_sge: limit(attrs.max_send_sge),
            max_read_sge: limit(attrs.max_sge_rd),
            max_frmr_depth: match attrs.page_size_cap & u64::from(PAGE) {
                0 => 0,
                _ => attrs.max_fast_reg_page_list_len,
            },
            // CAST: limited to 255 by `min`.
            max_qp_rd_atom: limit(attrs.max_qp_rd_atom).min(u8::MAX.into()) as u8,
            // CAST: limited to 255 by `min`.
            max_qp_init_rd_atom: limit(attrs.max_qp_init_rd_atom).min(u8::MAX.into()) as u8,
            max_cqe: limit(attrs.max_cqe),
            mem_mgt_extensions: flags & MEM_MGT_EXTENSIONS != 0,
            sg_gaps: attrs.kernel_cap_flags & SG_GAPS != 0,
            reads_need_regions: iwarp,
            slow_mapping: iommu || driver == bindings::rdma_driver_id_RDMA_DRIVER_HNS,
        }
    }

    /// Returns the name of the device.
    pub(crate) fn name(&self) -> Name {
        // SAFETY: By the type invariant the device is registered. It may be renamed during the
        // copy, which is volatile; the bytes are then a mixture of both names, which is harmless.
        let bytes = unsafe { (&raw const (*self.as_ptr()).name).read_volatile() };
        let name = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
        Name::new(&fmt!("{name}"))
    }

    /// Returns whether a port of the device has its link. Does not sleep.
    pub(crate) fn is_active(&self, port: u32) -> bool {
        // SAFETY: By the type invariant the device is registered.
        unsafe { bindings::rr_ib_port_has_link(self.as_ptr(), port) }
    }

    /// Returns the NUMA node of the device, or `NO_NODE` if the device reports none.
    pub(super) fn node(&self) -> NumaNode {
        // SAFETY: By the type invariant the device is registered.
        let node = unsafe { bindings::rr_ibdev_to_node(self.as_ptr()) };
        NumaNode::new(node).unwrap_or(NumaNode::NO_NODE)
    }
}
