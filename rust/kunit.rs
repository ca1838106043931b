// SPDX-License-Identifier: GPL-2.0

//! KUnit suites of the rooms that do not use the kernel.
//!
//! The host tests (tools/host) run the same cases; this module runs them as compiled for the
//! kernel. It is built with `make RPCRDMA_KUNIT=y` only. Every insmod prints the results to the
//! console as KTAP.

use kernel::prelude::*;

/// Prints the name of the failed case, and fails the test.
fn report(outcome: core::result::Result<(), &'static str>) -> Result {
    outcome.map_err(|case| {
        pr_err!("{}\n", case);
        EINVAL
    })
}

#[kunit_tests(rpcrdma_wire)]
mod wire {
    use super::report;
    use crate::wire::vectors::{cm_private, error, lower, rpc, single, v1, v2, xchar};
    use kernel::prelude::*;

    #[test]
    fn v1_decodes_golden_bytes() -> Result {
        report(v1::check_decode())
    }

    #[test]
    fn v1_encodes_golden_bytes() -> Result {
        report(v1::check_encode())
    }

    #[test]
    fn v1_refuses_bad_input() -> Result {
        report(v1::check_refuse())
    }

    #[test]
    fn v1_predicts_lengths() -> Result {
        report(v1::check_lengths())
    }

    #[test]
    fn cm_private_data() -> Result {
        report(cm_private::check())
    }

    #[test]
    fn v2_messages() -> Result {
        report(v2::check())
    }

    #[test]
    fn v2_call_is_sent_again_in_v1() -> Result {
        report(lower::check())
    }

    #[test]
    fn headers_of_rpc_calls() -> Result {
        report(rpc::check())
    }

    #[test]
    fn transport_characteristics() -> Result {
        report(xchar::check())
    }

    #[test]
    fn one_chunk_of_one_segment() -> Result {
        report(single::check())
    }

    #[test]
    fn texts_of_errors() -> Result {
        report(error::check())
    }
}

#[kunit_tests(rpcrdma_proto)]
mod proto {
    use super::report;
    use crate::proto::cases::{
        answers, backward, conn, flow, grant, hostile, intake, operations, plan, reassembly, reply,
        respond, session, settings, single, terms, version, xchar,
    };
    use kernel::prelude::*;

    #[test]
    fn credits() -> Result {
        report(flow::check_credits())
    }

    #[test]
    fn inline_thresholds() -> Result {
        report(flow::check_inline())
    }

    #[test]
    fn backoff() -> Result {
        report(flow::check_backoff())
    }

    #[test]
    fn liveness() -> Result {
        report(flow::check_liveness())
    }

    #[test]
    fn backward_calls() -> Result {
        report(backward::check())
    }

    #[test]
    fn connection_states() -> Result {
        report(conn::check())
    }

    #[test]
    fn chunk_planning() -> Result {
        report(plan::check())
    }

    #[test]
    fn replies_against_offers() -> Result {
        report(reply::check())
    }

    #[test]
    fn remote_invalidation() -> Result {
        report(reply::check_invalidate())
    }

    #[test]
    fn version_negotiation() -> Result {
        report(version::check())
    }

    #[test]
    fn sessions() -> Result {
        report(session::check())
    }

    #[test]
    fn terms_of_version_two() -> Result {
        report(terms::check())
    }

    #[test]
    fn operations() -> Result {
        report(operations::check())
    }

    #[test]
    fn settings_of_a_living_connection() -> Result {
        report(settings::check())
    }

    #[test]
    fn answers_to_control_messages() -> Result {
        report(answers::check())
    }

    #[test]
    fn characteristics_of_a_peer() -> Result {
        report(xchar::check_peer())
    }

    #[test]
    fn receive_buffer_changes() -> Result {
        report(xchar::check_receives())
    }

    #[test]
    fn reassembly() -> Result {
        report(reassembly::check())
    }

    #[test]
    fn calls_that_are_served() -> Result {
        report(intake::check())
    }

    #[test]
    fn replies_of_a_responder() -> Result {
        report(respond::check())
    }

    #[test]
    fn calls_and_replies_with_one_segment() -> Result {
        report(single::check())
    }

    #[test]
    fn grants() -> Result {
        report(grant::check())
    }

    #[test]
    fn hostile_requesters() -> Result {
        report(hostile::check())?;
        report(hostile::check_reasons())
    }
}

#[cfg(RPCRDMA_LEGACY)]
#[kunit_tests(rpcrdma_legacy)]
mod legacy {
    use super::report;
    use crate::proto::cases::{arguments, legacy, padded, service};
    use crate::wire::vectors::conf_rdma;
    use kernel::prelude::*;

    #[test]
    fn configuration_protocol() -> Result {
        report(conf_rdma::check())
    }

    #[test]
    fn done_padding_and_configuration() -> Result {
        report(legacy::check_done())?;
        report(legacy::check_padding())?;
        report(legacy::check_conf())?;
        report(legacy::check_round_up())?;
        report(legacy::check_reads())
    }

    #[test]
    fn calls_with_padding() -> Result {
        report(padded::check())?;
        report(arguments::check())
    }

    #[test]
    fn configuration_service() -> Result {
        report(service::check())
    }
}
