/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Trace events of the server, group "rpcrdma".
 * Events of the C implementation keep their names, field names and output here,
 * because scripts rely on them. Events of this module alone are in the
 * last part. All arguments are plain values, so that Rust needs no C structures;
 * BPF allows at most twelve. A "const char *" is a string, a "const void *" an
 * address of RPCRDMA_TRACE_ADDR_LEN bytes.
 *
 * rust/observe/trace.rs says how an event is added.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rpcrdma
/* The group has two headers, so the variables of this one need names of their own. */
#undef TRACE_SYSTEM_VAR
#define TRACE_SYSTEM_VAR rpcrdma_svc
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE rpcrdma_svc_rs

#if !defined(_TRACE_RPCRDMA_SVC_RS_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_RPCRDMA_SVC_RS_H

#include <linux/inet.h>
#include <linux/tracepoint.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_verbs.h>
#include <rpcrdma/glue_trace.h>
#include <trace/misc/rdma.h>

/* The message types of RFC 8166, section 4.2.4. */
#define rpcrdma_show_proc(x)						\
	__print_symbolic(x,						\
		{ 0, "RDMA_MSG" },					\
		{ 1, "RDMA_NOMSG" },					\
		{ 2, "RDMA_MSGP" },					\
		{ 3, "RDMA_DONE" },					\
		{ 4, "RDMA_ERROR" })

/* A work request: its completion queue, and its number there. */
#define RPCRDMA_CID_PROTO	u32 cq_id, int completion_id
#define RPCRDMA_CID_ENTRY	__field(u32, cq_id)			\
				__field(int, completion_id)
#define RPCRDMA_CID_ASSIGN	__entry->cq_id = cq_id;			\
				__entry->completion_id = completion_id
#define RPCRDMA_CID_PRINT	__entry->cq_id, __entry->completion_id

/*
 * Connection
 */

DECLARE_EVENT_CLASS(rpcrdma_rs_accept_class,
	TP_PROTO(const char *addr, long status),
	TP_ARGS(addr, status),
	TP_STRUCT__entry(
		__field(long, status)
		__string(addr, addr)
	),
	TP_fast_assign(
		__entry->status = status;
		__assign_str(addr);
	),
	TP_printk("addr=%s status=%ld", __get_str(addr), __entry->status)
);

#define DEFINE_ACCEPT_EVENT(name)					\
	DEFINE_EVENT(rpcrdma_rs_accept_class, name,			\
		TP_PROTO(const char *addr, long status),		\
		TP_ARGS(addr, status))

DEFINE_ACCEPT_EVENT(svcrdma_pd_err);
DEFINE_ACCEPT_EVENT(svcrdma_qp_err);
DEFINE_ACCEPT_EVENT(svcrdma_fabric_err);
DEFINE_ACCEPT_EVENT(svcrdma_initdepth_err);
DEFINE_ACCEPT_EVENT(svcrdma_accept_err);

TRACE_EVENT(svcrdma_qp_error,
	TP_PROTO(unsigned int event, const char *device, const void *peer),
	TP_ARGS(event, device, peer),
	TP_STRUCT__entry(
		__field(unsigned int, event)
		__string(device, device)
		__array(__u8, addr, INET6_ADDRSTRLEN + 10)
	),
	TP_fast_assign(
		__entry->event = event;
		__assign_str(device);
		snprintf(__entry->addr, sizeof(__entry->addr), "%pISpc", peer);
	),
	TP_printk("addr=%s dev=%s event=%s (%u)",
		__entry->addr, __get_str(device),
		rdma_show_ib_event(__entry->event), __entry->event)
);

TRACE_EVENT(svcrdma_device_removal,
	TP_PROTO(const char *name, const void *peer),
	TP_ARGS(name, peer),
	TP_STRUCT__entry(
		__string(name, name)
		__array(unsigned char, addr, RPCRDMA_TRACE_ADDR_LEN)
	),
	TP_fast_assign(
		__assign_str(name);
		memcpy(__entry->addr, peer, RPCRDMA_TRACE_ADDR_LEN);
	),
	TP_printk("device %s to be removed, disconnecting %pISpc",
		__get_str(name), __entry->addr)
);

/*
 * Receive
 */

DECLARE_EVENT_CLASS(rpcrdma_rs_cid_class,
	TP_PROTO(RPCRDMA_CID_PROTO),
	TP_ARGS(cq_id, completion_id),
	TP_STRUCT__entry(RPCRDMA_CID_ENTRY),
	TP_fast_assign(RPCRDMA_CID_ASSIGN;),
	TP_printk("cq.id=%d cid=%d", RPCRDMA_CID_PRINT)
);

#define DEFINE_CID_EVENT(name)						\
	DEFINE_EVENT(rpcrdma_rs_cid_class, name,			\
		TP_PROTO(RPCRDMA_CID_PROTO),				\
		TP_ARGS(cq_id, completion_id))

DEFINE_CID_EVENT(svcrdma_post_recv);

DECLARE_EVENT_CLASS(rpcrdma_rs_failed_wc_class,
	TP_PROTO(RPCRDMA_CID_PROTO, unsigned long status, unsigned int vendor_err),
	TP_ARGS(cq_id, completion_id, status, vendor_err),
	TP_STRUCT__entry(
		RPCRDMA_CID_ENTRY
		__field(unsigned long, status)
		__field(unsigned int, vendor_err)
	),
	TP_fast_assign(
		RPCRDMA_CID_ASSIGN;
		__entry->status = status;
		__entry->vendor_err = vendor_err;
	),
	TP_printk("cq.id=%u cid=%d status=%s (%lu/0x%x)",
		RPCRDMA_CID_PRINT, rdma_show_wc_status(__entry->status),
		__entry->status, __entry->vendor_err)
);

#define DEFINE_FAILED_WC_EVENT(name)					\
	DEFINE_EVENT(rpcrdma_rs_failed_wc_class, name,			\
		TP_PROTO(RPCRDMA_CID_PROTO, unsigned long status,	\
			 unsigned int vendor_err),			\
		TP_ARGS(cq_id, completion_id, status, vendor_err))

DEFINE_FAILED_WC_EVENT(svcrdma_wc_recv_flush);
DEFINE_FAILED_WC_EVENT(svcrdma_wc_recv_err);

TRACE_EVENT(svcrdma_wc_recv,
	TP_PROTO(RPCRDMA_CID_PROTO, u32 received),
	TP_ARGS(cq_id, completion_id, received),
	TP_STRUCT__entry(
		RPCRDMA_CID_ENTRY
		__field(u32, received)
	),
	TP_fast_assign(
		RPCRDMA_CID_ASSIGN;
		__entry->received = received;
	),
	TP_printk("cq.id=%u cid=%d received=%u", RPCRDMA_CID_PRINT,
		__entry->received)
);

TRACE_EVENT(svcrdma_rq_post_err,
	TP_PROTO(const char *addr, int status),
	TP_ARGS(addr, status),
	TP_STRUCT__entry(
		__field(int, status)
		__string(addr, addr)
	),
	TP_fast_assign(
		__entry->status = status;
		__assign_str(addr);
	),
	TP_printk("addr=%s status=%d", __get_str(addr), __entry->status)
);

/*
 * Decoding
 */

TRACE_EVENT(svcrdma_decode_rqst,
	TP_PROTO(RPCRDMA_CID_PROTO, u32 xid, u32 vers, u32 proc, u32 credits,
		 unsigned int hdrlen),
	TP_ARGS(cq_id, completion_id, xid, vers, proc, credits, hdrlen),
	TP_STRUCT__entry(
		RPCRDMA_CID_ENTRY
		__field(u32, xid)
		__field(u32, vers)
		__field(u32, proc)
		__field(u32, credits)
		__field(unsigned int, hdrlen)
	),
	TP_fast_assign(
		RPCRDMA_CID_ASSIGN;
		__entry->xid = xid;
		__entry->vers = vers;
		__entry->proc = proc;
		__entry->credits = credits;
		__entry->hdrlen = hdrlen;
	),
	TP_printk("cq.id=%u cid=%d xid=0x%08x vers=%u credits=%u proc=%s hdrlen=%u",
		RPCRDMA_CID_PRINT, __entry->xid, __entry->vers, __entry->credits,
		rpcrdma_show_proc(__entry->proc), __entry->hdrlen)
);

TRACE_EVENT(svcrdma_decode_short_err,
	TP_PROTO(RPCRDMA_CID_PROTO, unsigned int hdrlen),
	TP_ARGS(cq_id, completion_id, hdrlen),
	TP_STRUCT__entry(
		RPCRDMA_CID_ENTRY
		__field(unsigned int, hdrlen)
	),
	TP_fast_assign(
		RPCRDMA_CID_ASSIGN;
		__entry->hdrlen = hdrlen;
	),
	TP_printk("cq.id=%u cid=%d hdrlen=%u", RPCRDMA_CID_PRINT,
		__entry->hdrlen)
);

DECLARE_EVENT_CLASS(rpcrdma_rs_decode_err_class,
	TP_PROTO(RPCRDMA_CID_PROTO, u32 xid, u32 vers, u32 proc, u32 credits),
	TP_ARGS(cq_id, completion_id, xid, vers, proc, credits),
	TP_STRUCT__entry(
		RPCRDMA_CID_ENTRY
		__field(u32, xid)
		__field(u32, vers)
		__field(u32, proc)
		__field(u32, credits)
	),
	TP_fast_assign(
		RPCRDMA_CID_ASSIGN;
		__entry->xid = xid;
		__entry->vers = vers;
		__entry->proc = proc;
		__entry->credits = credits;
	),
	TP_printk("cq.id=%u cid=%d xid=0x%08x vers=%u credits=%u proc=%u",
		RPCRDMA_CID_PRINT, __entry->xid, __entry->vers,
		__entry->credits, __entry->proc)
);

#define DEFINE_DECODE_ERR_EVENT(name)					\
	DEFINE_EVENT(rpcrdma_rs_decode_err_class, name,			\
		TP_PROTO(RPCRDMA_CID_PROTO, u32 xid, u32 vers,		\
			 u32 proc, u32 credits),			\
		TP_ARGS(cq_id, completion_id, xid, vers, proc, credits))

DEFINE_DECODE_ERR_EVENT(svcrdma_decode_badvers_err);
DEFINE_DECODE_ERR_EVENT(svcrdma_decode_drop_err);
DEFINE_DECODE_ERR_EVENT(svcrdma_decode_badproc_err);
DEFINE_DECODE_ERR_EVENT(svcrdma_decode_parse_err);

TRACE_EVENT(svcrdma_decode_rseg,
	TP_PROTO(RPCRDMA_CID_PROTO, u32 segno, u32 position, u32 handle,
		 u32 length, u64 offset),
	TP_ARGS(cq_id, completion_id, segno, position, handle, length, offset),
	TP_STRUCT__entry(
		RPCRDMA_CID_ENTRY
		__field(u32, segno)
		__field(u32, position)
		__field(u32, handle)
		__field(u32, length)
		__field(u64, offset)
	),
	TP_fast_assign(
		RPCRDMA_CID_ASSIGN;
		__entry->segno = segno;
		__entry->position = position;
		__entry->handle = handle;
		__entry->length = length;
		__entry->offset = offset;
	),
	TP_printk("cq.id=%u cid=%d segno=%u position=%u %u@0x%016llx:0x%08x",
		RPCRDMA_CID_PRINT, __entry->segno, __entry->position,
		__entry->length, (unsigned long long)__entry->offset,
		__entry->handle)
);

DECLARE_EVENT_CLASS(rpcrdma_rs_wseg_class,
	TP_PROTO(RPCRDMA_CID_PROTO, u32 segno, u32 handle, u32 length, u64 offset),
	TP_ARGS(cq_id, completion_id, segno, handle, length, offset),
	TP_STRUCT__entry(
		RPCRDMA_CID_ENTRY
		__field(u32, segno)
		__field(u32, handle)
		__field(u32, length)
		__field(u64, offset)
	),
	TP_fast_assign(
		RPCRDMA_CID_ASSIGN;
		__entry->segno = segno;
		__entry->handle = handle;
		__entry->length = length;
		__entry->offset = offset;
	),
	TP_printk("cq.id=%u cid=%d segno=%u %u@0x%016llx:0x%08x",
		RPCRDMA_CID_PRINT, __entry->segno, __entry->length,
		(unsigned long long)__entry->offset, __entry->handle)
);

#define DEFINE_WSEG_EVENT(name)						\
	DEFINE_EVENT(rpcrdma_rs_wseg_class, name,			\
		TP_PROTO(RPCRDMA_CID_PROTO, u32 segno, u32 handle,	\
			 u32 length, u64 offset),			\
		TP_ARGS(cq_id, completion_id, segno, handle, length, offset))

DEFINE_WSEG_EVENT(svcrdma_decode_wseg);
DEFINE_WSEG_EVENT(svcrdma_encode_wseg);

/*
 * RDMA Reads
 */

DECLARE_EVENT_CLASS(rpcrdma_rs_chunk_class,
	TP_PROTO(RPCRDMA_CID_PROTO, int sqecount),
	TP_ARGS(cq_id, completion_id, sqecount),
	TP_STRUCT__entry(
		RPCRDMA_CID_ENTRY
		__field(int, sqecount)
	),
	TP_fast_assign(
		RPCRDMA_CID_ASSIGN;
		__entry->sqecount = sqecount;
	),
	TP_printk("cq.id=%u cid=%d sqecount=%d", RPCRDMA_CID_PRINT,
		__entry->sqecount)
);

#define DEFINE_CHUNK_EVENT(name)					\
	DEFINE_EVENT(rpcrdma_rs_chunk_class, name,			\
		TP_PROTO(RPCRDMA_CID_PROTO, int sqecount),		\
		TP_ARGS(cq_id, completion_id, sqecount))

DEFINE_CHUNK_EVENT(svcrdma_post_read_chunk);

TRACE_EVENT(svcrdma_wc_read,
	TP_PROTO(RPCRDMA_CID_PROTO, s64 read_latency, unsigned int totalbytes),
	TP_ARGS(cq_id, completion_id, read_latency, totalbytes),
	TP_STRUCT__entry(
		RPCRDMA_CID_ENTRY
		__field(s64, read_latency)
		__field(unsigned int, totalbytes)
	),
	TP_fast_assign(
		RPCRDMA_CID_ASSIGN;
		__entry->read_latency = read_latency;
		__entry->totalbytes = totalbytes;
	),
	TP_printk("cq.id=%u cid=%d totalbytes=%u latency-us=%lld",
		RPCRDMA_CID_PRINT, __entry->totalbytes, __entry->read_latency)
);

DEFINE_FAILED_WC_EVENT(svcrdma_wc_read_flush);
DEFINE_FAILED_WC_EVENT(svcrdma_wc_read_err);
DEFINE_CID_EVENT(svcrdma_read_finished);

TRACE_EVENT(svcrdma_dma_map_rw_err,
	TP_PROTO(u32 cq_id, u32 handle, u64 offset, unsigned int nents, int status),
	TP_ARGS(cq_id, handle, offset, nents, status),
	TP_STRUCT__entry(
		__field(u32, cq_id)
		__field(u32, handle)
		__field(u64, offset)
		__field(unsigned int, nents)
		__field(int, status)
	),
	TP_fast_assign(
		__entry->cq_id = cq_id;
		__entry->handle = handle;
		__entry->offset = offset;
		__entry->nents = nents;
		__entry->status = status;
	),
	TP_printk("cq.id=%u 0x%016llx:0x%08x nents=%u status=%d",
		__entry->cq_id, (unsigned long long)__entry->offset,
		__entry->handle, __entry->nents, __entry->status)
);

/*
 * Reply
 */

TRACE_EVENT(svcrdma_small_wrch_err,
	TP_PROTO(RPCRDMA_CID_PROTO, unsigned int remaining, unsigned int seg_no,
		 unsigned int num_segs),
	TP_ARGS(cq_id, completion_id, remaining, seg_no, num_segs),
	TP_STRUCT__entry(
		RPCRDMA_CID_ENTRY
		__field(unsigned int, remaining)
		__field(unsigned int, seg_no)
		__field(unsigned int, num_segs)
	),
	TP_fast_assign(
		RPCRDMA_CID_ASSIGN;
		__entry->remaining = remaining;
		__entry->seg_no = seg_no;
		__entry->num_segs = num_segs;
	),
	TP_printk("cq.id=%u cid=%d remaining=%u seg_no=%u num_segs=%u",
		RPCRDMA_CID_PRINT, __entry->remaining, __entry->seg_no,
		__entry->num_segs)
);

DEFINE_CHUNK_EVENT(svcrdma_post_write_chunk);
DEFINE_CHUNK_EVENT(svcrdma_post_reply_chunk);
DEFINE_CHUNK_EVENT(svcrdma_cc_release);
DEFINE_FAILED_WC_EVENT(svcrdma_wc_write_flush);
DEFINE_FAILED_WC_EVENT(svcrdma_wc_write_err);

TRACE_EVENT(svcrdma_send_pullup,
	TP_PROTO(RPCRDMA_CID_PROTO, unsigned int hdrlen, unsigned int msglen),
	TP_ARGS(cq_id, completion_id, hdrlen, msglen),
	TP_STRUCT__entry(
		RPCRDMA_CID_ENTRY
		__field(unsigned int, hdrlen)
		__field(unsigned int, msglen)
	),
	TP_fast_assign(
		RPCRDMA_CID_ASSIGN;
		__entry->hdrlen = hdrlen;
		__entry->msglen = msglen;
	),
	TP_printk("cq.id=%u cid=%d hdr=%u msg=%u (total %u)",
		RPCRDMA_CID_PRINT, __entry->hdrlen, __entry->msglen,
		__entry->hdrlen + __entry->msglen)
);

TRACE_EVENT(svcrdma_send_err,
	TP_PROTO(const char *addr, u32 xid, int status),
	TP_ARGS(addr, xid, status),
	TP_STRUCT__entry(
		__field(int, status)
		__field(u32, xid)
		__string(addr, addr)
	),
	TP_fast_assign(
		__entry->status = status;
		__entry->xid = xid;
		__assign_str(addr);
	),
	TP_printk("addr=%s xid=0x%08x status=%d", __get_str(addr),
		__entry->xid, __entry->status)
);

DECLARE_EVENT_CLASS(rpcrdma_rs_error_class,
	TP_PROTO(u32 xid),
	TP_ARGS(xid),
	TP_STRUCT__entry(__field(u32, xid)),
	TP_fast_assign(__entry->xid = xid;),
	TP_printk("xid=0x%08x", __entry->xid)
);

DEFINE_EVENT(rpcrdma_rs_error_class, svcrdma_err_vers,
	TP_PROTO(u32 xid),
	TP_ARGS(xid));

DEFINE_EVENT(rpcrdma_rs_error_class, svcrdma_err_chunk,
	TP_PROTO(u32 xid),
	TP_ARGS(xid));

/*
 * Send queue
 */

TRACE_EVENT(svcrdma_post_send,
	TP_PROTO(RPCRDMA_CID_PROTO, unsigned int num_sge, u32 inv_rkey),
	TP_ARGS(cq_id, completion_id, num_sge, inv_rkey),
	TP_STRUCT__entry(
		RPCRDMA_CID_ENTRY
		__field(unsigned int, num_sge)
		__field(u32, inv_rkey)
	),
	TP_fast_assign(
		RPCRDMA_CID_ASSIGN;
		__entry->num_sge = num_sge;
		__entry->inv_rkey = inv_rkey;
	),
	TP_printk("cq.id=%u cid=%d num_sge=%u inv_rkey=0x%08x",
		RPCRDMA_CID_PRINT, __entry->num_sge, __entry->inv_rkey)
);

DEFINE_CID_EVENT(svcrdma_wc_send);
DEFINE_FAILED_WC_EVENT(svcrdma_wc_send_flush);
DEFINE_FAILED_WC_EVENT(svcrdma_wc_send_err);

DECLARE_EVENT_CLASS(rpcrdma_rs_sq_class,
	TP_PROTO(RPCRDMA_CID_PROTO, int avail, int depth),
	TP_ARGS(cq_id, completion_id, avail, depth),
	TP_STRUCT__entry(
		RPCRDMA_CID_ENTRY
		__field(int, avail)
		__field(int, depth)
	),
	TP_fast_assign(
		RPCRDMA_CID_ASSIGN;
		__entry->avail = avail;
		__entry->depth = depth;
	),
	TP_printk("cq.id=%u cid=%d sc_sq_avail=%d/%d", RPCRDMA_CID_PRINT,
		__entry->avail, __entry->depth)
);

#define DEFINE_SQ_EVENT(name)						\
	DEFINE_EVENT(rpcrdma_rs_sq_class, name,				\
		TP_PROTO(RPCRDMA_CID_PROTO, int avail, int depth),	\
		TP_ARGS(cq_id, completion_id, avail, depth))

DEFINE_SQ_EVENT(svcrdma_sq_full);
DEFINE_SQ_EVENT(svcrdma_sq_retry);

TRACE_EVENT(svcrdma_sq_post_err,
	TP_PROTO(RPCRDMA_CID_PROTO, int avail, int depth, int status),
	TP_ARGS(cq_id, completion_id, avail, depth, status),
	TP_STRUCT__entry(
		RPCRDMA_CID_ENTRY
		__field(int, avail)
		__field(int, depth)
		__field(int, status)
	),
	TP_fast_assign(
		RPCRDMA_CID_ASSIGN;
		__entry->avail = avail;
		__entry->depth = depth;
		__entry->status = status;
	),
	TP_printk("cq.id=%u cid=%d sc_sq_avail=%d/%d status=%d",
		RPCRDMA_CID_PRINT, __entry->avail, __entry->depth,
		__entry->status)
);

/*
 * Events that the C implementation does not have
 */

TRACE_EVENT(svcrdma_breach,
	TP_PROTO(const char *addr, u32 xid, const char *name, const char *what),
	TP_ARGS(addr, xid, name, what),
	TP_STRUCT__entry(
		__field(u32, xid)
		__string(addr, addr)
		__string(name, name)
		__string(what, what)
	),
	TP_fast_assign(
		__entry->xid = xid;
		__assign_str(addr);
		__assign_str(name);
		__assign_str(what);
	),
	TP_printk("addr=%s xid=0x%08x %s: %s", __get_str(addr), __entry->xid,
		__get_str(name), __get_str(what))
);

DECLARE_EVENT_CLASS(rpcrdma_rs_length_class,
	TP_PROTO(const char *addr, u32 xid, u32 length),
	TP_ARGS(addr, xid, length),
	TP_STRUCT__entry(
		__field(u32, xid)
		__field(u32, length)
		__string(addr, addr)
	),
	TP_fast_assign(
		__entry->xid = xid;
		__entry->length = length;
		__assign_str(addr);
	),
	TP_printk("addr=%s xid=0x%08x length=%u", __get_str(addr),
		__entry->xid, __entry->length)
);

#define DEFINE_LENGTH_EVENT(name)					\
	DEFINE_EVENT(rpcrdma_rs_length_class, name,			\
		TP_PROTO(const char *addr, u32 xid, u32 length),	\
		TP_ARGS(addr, xid, length))

DEFINE_LENGTH_EVENT(svcrdma_pages_short);

/*
 * RFC 5666
 */

DEFINE_LENGTH_EVENT(svcrdma_conf_call);
DEFINE_LENGTH_EVENT(svcrdma_padded_call);
DEFINE_LENGTH_EVENT(svcrdma_expose_reply);
DEFINE_LENGTH_EVENT(svcrdma_done_received);

#endif /* _TRACE_RPCRDMA_SVC_RS_H */

/* <trace/define_trace.h> must be outside the guard. */
#include <trace/define_trace.h>
