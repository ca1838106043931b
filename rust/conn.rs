// SPDX-License-Identifier: GPL-2.0

//! A connection, as both roles see it.
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`role`], [`owner`] | what a connection asks of its role, and of its transport |
//! | [`connection`] | the objects of a connection, in the order of their teardown; its close |
//! | [`lifecycle`] | the states of a connection, which the connection manager's events change |
//! | [`handshake`] | the private data of both peers, and the terms that follow from it |
//! | [`terms`] | the terms of version one, from the private data of both peers |
//! | [`shared`] | the state of a connection that completions reach |
//! | [`dispatch`] | completions, which go to the role |
//! | [`credits`] | the peer's credits for our calls |
//! | [`backward`] | messages in the backward direction |
//! | [`agreement`], [`control`] | the session of both peers; carrying out what it decides |
//! | [`peers`] | what is known of peers from earlier connections |
//! | [`registry`] | the connections of the module, for a file of debugfs |
//! | [`describe`] | what that file shows of a connection in either role |
//! | [`tally`] | rare events of a connection, counted for that file |
//! | [`live`] | the terms as they are now, for readers without a lock |
//! | [`buffers`] | send buffers for replies, and spare ones for calls |
//! | [`queues`] | the lengths of the queues that a device has room for |
//! | [`removal`] | what happens when a device goes away |
//! | [`traced`] | how trace events name a peer, a work request, a memory region |
//!
//! A role (requester or responder) implements [`role::Role`] and holds a
//! [`Connection`](connection::Connection). This room names neither SUNRPC nor a role.
//!
//! All functions are for process context. Documentation/locking.rst lists the locks.
#![forbid(unsafe_code)]

pub(crate) mod agreement;
pub(crate) mod backward;
pub(crate) mod buffers;
pub(crate) mod connection;
mod control;
pub(crate) mod credits;
mod describe;
mod dispatch;
pub(crate) mod handshake;
pub(crate) mod lifecycle;
pub(crate) mod live;
pub(crate) mod owner;
pub(crate) mod peers;
pub(crate) mod queues;
pub(crate) mod registry;
pub(crate) mod removal;
pub(crate) mod role;
pub(crate) mod shared;
pub(crate) mod tally;
pub(crate) mod terms;
pub(crate) mod traced;
