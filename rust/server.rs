// SPDX-License-Identifier: GPL-2.0

//! The responder: what makes this module a server transport of SUNRPC. A role of
//! [`conn`](crate::conn).
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`service`] | what all listeners and connections share |
//! | [`config`], [`chosen`], [`sizes`] | settings, and what follows from them on a device |
//! | [`shown`] | what debugfs shows of a connection |
//! | [`listener`], [`prepare`], [`fit`] | from a connection request to an accepted connection |
//! | [`transport`], [`owner`] | a connection as SUNRPC sees it, and SUNRPC as the connection does |
//! | [`accepted`] | where both find the connection, until it is given up |
//! | [`endpoint`], [`responder`], [`role`] | the connection's objects, and what completions do |
//! | [`session`] | agrees with the requester on version and terms |
//! | [`receiver`], [`intake`] | receiving a call that is inline |
//! | [`early`], [`pull`], [`pulled`] | receiving a call that RDMA Reads have to fetch |
//! | [`padded`], [`done`] | messages of RFC 5666: calls with padding, and RDMA_DONE |
//! | [`expose`], [`exposed`] | replies as read chunks, until RDMA_DONE comes |
//! | [`conf`], [`configured`] | the Connection Configuration Protocol, of RFC 5666 |
//! | [`budget`] | how much memory such calls may use |
//! | [`call`], [`calls`] | what is kept of a call until its reply, and the requester's credits |
//! | [`reply`], [`writes`], [`refuse`], [`outgoing`] | sending a reply or an error |
//! | [`flights`], [`spare`], [`ring`] | operations under way, and what they leave for the next |
//! | [`log`], [`failure`], [`breach`] | what the administrator must know |
//! | [`backward`], [`route`] | calls of the service to its client |
//! | [`watch`] | finding the requesters that do not answer |
//!
//! This room contains no `unsafe`.
#![forbid(unsafe_code)]

mod accepted;
pub(crate) mod backward;
mod breach;
mod budget;
mod call;
mod calls;
mod chosen;
mod conf;
pub(crate) mod config;
mod configured;
mod done;
mod early;
mod endpoint;
mod expose;
mod exposed;
mod failure;
mod fit;
mod flights;
mod intake;
pub(crate) mod listener;
mod log;
mod outgoing;
mod owner;
mod padded;
mod prepare;
mod pull;
mod pulled;
mod receiver;
mod refuse;
mod release;
mod reply;
mod responder;
mod ring;
mod role;
mod route;
pub(crate) mod service;
mod session;
mod shown;
mod sizes;
mod spare;
mod transport;
mod watch;
mod writes;
