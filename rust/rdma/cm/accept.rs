// SPDX-License-Identifier: GPL-2.0

//! Accepting a connection request, with a traffic class of this side's own over RoCE.
//!
//! The connection manager gives the packets of the side that accepts the traffic class of the
//! request. `rdma_set_service_type()` changes the class only on the side that connects, and over
//! iWARP. A queue pair gets its class on its way to the state in which it sends, and the connection
//! manager leaves that way to its user if the cm_id has no queue pair. The cm_id therefore has none
//! while it accepts with another class.

use kernel::error::to_result;
use kernel::prelude::*;

use super::ident::Ident;
use crate::raw as bindings;

/// The states of a queue pair until it may send, in order.
const STATES: [bindings::ib_qp_state; 3] = [
    bindings::ib_qp_state_IB_QPS_INIT,
    bindings::ib_qp_state_IB_QPS_RTR,
    bindings::ib_qp_state_IB_QPS_RTS,
];

impl Ident {
    /// Accepts the connection request that arrived with the cm_id. `class` is the traffic class of
    /// this side's packets over RoCE, or `None` for that of the request. May sleep.
    ///
    /// # Errors
    ///
    /// Those of [`CmId::accept`](super::CmId::accept).
    pub(super) fn accept(
        &self,
        mut params: bindings::rdma_conn_param,
        class: Option<u8>,
    ) -> Result {
        // SAFETY: By the invariant of `OwnedId` the cm_id is valid, and its queue pair, if it has
        // one, exists while no other call destroys it. The parameters are valid, and are copied.
        // With the handler locked, and without another call, nothing else uses the queue pair that
        // the cm_id has. In each state the mask names the attributes that count.
        self.exclusively(|id| unsafe {
            let qp = (*id).qp;
            let modify = |state, class| {
                let mut mask = 0;
                let mut attr = bindings::ib_qp_attr {
                    qp_state: state,
                    ..pin_init::zeroed()
                };
                let filled = bindings::rdma_init_qp_attr(id, &raw mut attr, &raw mut mask);
                to_result(filled)?;
                attr.ah_attr.grh.traffic_class = class;
                attr.max_dest_rd_atomic = params.responder_resources;
                attr.max_rd_atomic = params.initiator_depth;
                to_result(bindings::ib_modify_qp(qp, &raw mut attr, mask))
            };
            bindings::rdma_lock_handler(id);
            let class = class.filter(|_| !qp.is_null() && bindings::rr_rdma_is_roce(id));
            let mut accepted = Ok(());
            if let Some(class) = class {
                accepted = STATES
                    .into_iter()
                    .try_for_each(|state| modify(state, class));
                params.qp_num = (*qp).qp_num;
                (*id).qp = core::ptr::null_mut();
            }
            if accepted.is_ok() {
                accepted = to_result(bindings::rdma_accept(id, &raw mut params));
            }
            (*id).qp = qp;
            bindings::rdma_unlock_handler(id);
            accepted
        })
    }
}
