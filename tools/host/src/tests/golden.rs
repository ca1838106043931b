// SPDX-License-Identifier: GPL-2.0

//! The vectors and case tables that the KUnit suite also runs. Each group is one test.

use crate::{proto::cases, wire::vectors};

macro_rules! groups {
    ($($name:ident: $check:path;)+) => {
        $(#[test]
        fn $name() {
            assert_eq!($check(), Ok(()));
        })+
    };
}

groups! {
    v1_decode: vectors::v1::check_decode;
    v1_encode: vectors::v1::check_encode;
    v1_refuse: vectors::v1::check_refuse;
    v1_lengths: vectors::v1::check_lengths;
    cm_private: vectors::cm_private::check;
    conf_rdma: vectors::conf_rdma::check;
    v2: vectors::v2::check;
    lower: vectors::lower::check;
    rpc_header: vectors::rpc::check;
    xchar: vectors::xchar::check;
    error: vectors::error::check;
    one_segment: vectors::single::check;
    all_vectors: vectors::check_all;
    credits: cases::flow::check_credits;
    inline: cases::flow::check_inline;
    backoff: cases::flow::check_backoff;
    silence: cases::flow::check_liveness;
    backward: cases::backward::check;
    conn: cases::conn::check;
    plan: cases::plan::check;
    reply: cases::reply::check;
    invalidate: cases::reply::check_invalidate;
    reassembly: cases::reassembly::check;
    intake: cases::intake::check;
    respond: cases::respond::check;
    single: cases::single::check;
    grant: cases::grant::check;
    hostile: cases::hostile::check;
    hostile_reasons: cases::hostile::check_reasons;
    version: cases::version::check;
    session: cases::session::check;
    terms: cases::terms::check;
    operations: cases::operations::check;
    settings: cases::settings::check;
    answers: cases::answers::check;
    xchar_peer: cases::xchar::check_peer;
    xchar_receives: cases::xchar::check_receives;
    done: cases::legacy::check_done;
    padding: cases::legacy::check_padding;
    conf: cases::legacy::check_conf;
    padded: cases::padded::check;
    arguments: cases::arguments::check;
    service: cases::service::check;
    all_cases: cases::check_all;
}
