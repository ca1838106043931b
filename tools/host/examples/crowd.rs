// SPDX-License-Identifier: GPL-2.0

//! Prints the simulation of a thousand clients whose server returns, for
//! `Documentation/recovery.rst`.

fn main() {
    print!("{}", rpcrdma_proto::crowd::report());
}
