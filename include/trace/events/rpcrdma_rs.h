/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Trace events of RPC over RDMA, group "rpcrdma".
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
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE rpcrdma_rs

#if !defined(_TRACE_RPCRDMA_RS_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_RPCRDMA_RS_H

#include <linux/dma-direction.h>
#include <linux/tracepoint.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_verbs.h>
#include <rpcrdma/glue_trace.h>
#include <trace/misc/rdma.h>
#include <trace/misc/sunrpc.h>

TRACE_DEFINE_ENUM(DMA_BIDIRECTIONAL);
TRACE_DEFINE_ENUM(DMA_TO_DEVICE);
TRACE_DEFINE_ENUM(DMA_FROM_DEVICE);
TRACE_DEFINE_ENUM(DMA_NONE);

#define rpcrdma_show_direction(x)					\
	__print_symbolic(x,						\
		{ DMA_BIDIRECTIONAL, "BIDIR" },				\
		{ DMA_TO_DEVICE, "TO_DEVICE" },				\
		{ DMA_FROM_DEVICE, "FROM_DEVICE" },			\
		{ DMA_NONE, "NONE" })

#define rpcrdma_show_form(x)						\
	__print_symbolic(x,						\
		{ RPCRDMA_FORM_INLINE, "inline" },			\
		{ RPCRDMA_FORM_COPIED, "pullup" },			\
		{ RPCRDMA_FORM_GATHERED, "mapped" },			\
		{ RPCRDMA_FORM_READ_CHUNK, "read list" },		\
		{ RPCRDMA_FORM_POSITION_ZERO, "*read list" },		\
		{ RPCRDMA_FORM_WRITE_CHUNK, "write list" },		\
		{ RPCRDMA_FORM_REPLY_CHUNK, "reply chunk" })

/* The RPC task of an event: four fragments that many events use. */
#define RPCRDMA_TASK_PROTO	unsigned int task_id, unsigned int client_id
#define RPCRDMA_TASK_ENTRY	__field(unsigned int, task_id)		\
				__field(unsigned int, client_id)
#define RPCRDMA_TASK_ASSIGN	__entry->task_id = task_id;		\
				__entry->client_id = client_id
#define RPCRDMA_TASK_PRINT	__entry->task_id, __entry->client_id

/* The peer: address and port as SUNRPC displays them. */
#define RPCRDMA_PEER_PROTO	const char *addr, const char *port
#define RPCRDMA_PEER_ENTRY	__string(addr, addr)			\
				__string(port, port)
#define RPCRDMA_PEER_ASSIGN	__assign_str(addr);			\
				__assign_str(port)
#define RPCRDMA_PEER_PRINT	__get_str(addr), __get_str(port)

/*
 * Connection
 */

DECLARE_EVENT_CLASS(rpcrdma_rs_connect_class,
	TP_PROTO(RPCRDMA_PEER_PROTO, int rc, int connect_status),
	TP_ARGS(addr, port, rc, connect_status),
	TP_STRUCT__entry(
		__field(int, rc)
		__field(int, connect_status)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__entry->rc = rc;
		__entry->connect_status = connect_status;
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s rc=%d connection status=%d",
		RPCRDMA_PEER_PRINT, __entry->rc, __entry->connect_status)
);

DEFINE_EVENT(rpcrdma_rs_connect_class, xprtrdma_connect,
	TP_PROTO(RPCRDMA_PEER_PROTO, int rc, int connect_status),
	TP_ARGS(addr, port, rc, connect_status));

DEFINE_EVENT(rpcrdma_rs_connect_class, xprtrdma_disconnect,
	TP_PROTO(RPCRDMA_PEER_PROTO, int rc, int connect_status),
	TP_ARGS(addr, port, rc, connect_status));

TRACE_EVENT(xprtrdma_inline_thresh,
	TP_PROTO(unsigned int inline_send, unsigned int inline_recv,
		 unsigned int max_send, unsigned int max_recv,
		 const void *src, const void *dst),
	TP_ARGS(inline_send, inline_recv, max_send, max_recv, src, dst),
	TP_STRUCT__entry(
		__field(unsigned int, inline_send)
		__field(unsigned int, inline_recv)
		__field(unsigned int, max_send)
		__field(unsigned int, max_recv)
		__array(unsigned char, srcaddr, RPCRDMA_TRACE_ADDR_LEN)
		__array(unsigned char, dstaddr, RPCRDMA_TRACE_ADDR_LEN)
	),
	TP_fast_assign(
		__entry->inline_send = inline_send;
		__entry->inline_recv = inline_recv;
		__entry->max_send = max_send;
		__entry->max_recv = max_recv;
		memcpy(__entry->srcaddr, src, RPCRDMA_TRACE_ADDR_LEN);
		memcpy(__entry->dstaddr, dst, RPCRDMA_TRACE_ADDR_LEN);
	),
	TP_printk("%pISpc -> %pISpc neg send/recv=%u/%u, calc send/recv=%u/%u",
		__entry->srcaddr, __entry->dstaddr,
		__entry->inline_send, __entry->inline_recv,
		__entry->max_send, __entry->max_recv)
);

TRACE_EVENT(xprtrdma_device_removal,
	TP_PROTO(const char *name, const void *dst),
	TP_ARGS(name, dst),
	TP_STRUCT__entry(
		__string(name, name)
		__array(unsigned char, addr, RPCRDMA_TRACE_ADDR_LEN)
	),
	TP_fast_assign(
		__assign_str(name);
		memcpy(__entry->addr, dst, RPCRDMA_TRACE_ADDR_LEN);
	),
	TP_printk("device %s to be removed, disconnecting %pISpc",
		__get_str(name), __entry->addr)
);

TRACE_EVENT(xprtrdma_op_inject_dsc,
	TP_PROTO(RPCRDMA_PEER_PROTO),
	TP_ARGS(addr, port),
	TP_STRUCT__entry(RPCRDMA_PEER_ENTRY),
	TP_fast_assign(RPCRDMA_PEER_ASSIGN;),
	TP_printk("peer=[%s]:%s", RPCRDMA_PEER_PRINT)
);

TRACE_EVENT(xprtrdma_op_connect,
	TP_PROTO(RPCRDMA_PEER_PROTO, unsigned long delay),
	TP_ARGS(addr, port, delay),
	TP_STRUCT__entry(
		__field(unsigned long, delay)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__entry->delay = delay;
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s delay=%lu", RPCRDMA_PEER_PRINT, __entry->delay)
);

TRACE_EVENT(xprtrdma_op_set_cto,
	TP_PROTO(RPCRDMA_PEER_PROTO, unsigned long connect, unsigned long reconnect),
	TP_ARGS(addr, port, connect, reconnect),
	TP_STRUCT__entry(
		__field(unsigned long, connect)
		__field(unsigned long, reconnect)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__entry->connect = connect;
		__entry->reconnect = reconnect;
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s connect=%lu reconnect=%lu", RPCRDMA_PEER_PRINT,
		__entry->connect / HZ, __entry->reconnect / HZ)
);

/*
 * Call
 */

TRACE_EVENT(xprtrdma_createmrs,
	TP_PROTO(RPCRDMA_PEER_PROTO, unsigned int count),
	TP_ARGS(addr, port, count),
	TP_STRUCT__entry(
		RPCRDMA_PEER_ENTRY
		__field(unsigned int, count)
	),
	TP_fast_assign(
		__entry->count = count;
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s created %u MRs", RPCRDMA_PEER_PRINT, __entry->count)
);

TRACE_EVENT(xprtrdma_nomrs_err,
	TP_PROTO(RPCRDMA_TASK_PROTO, RPCRDMA_PEER_PROTO),
	TP_ARGS(task_id, client_id, addr, port),
	TP_STRUCT__entry(
		RPCRDMA_TASK_ENTRY
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		RPCRDMA_TASK_ASSIGN;
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER " peer=[%s]:%s",
		RPCRDMA_TASK_PRINT, RPCRDMA_PEER_PRINT)
);

TRACE_EVENT(xprtrdma_chunk_read,
	TP_PROTO(RPCRDMA_TASK_PROTO, unsigned int pos, int nents,
		 u32 handle, u32 length, u64 offset, bool is_last),
	TP_ARGS(task_id, client_id, pos, nents, handle, length, offset, is_last),
	TP_STRUCT__entry(
		RPCRDMA_TASK_ENTRY
		__field(unsigned int, pos)
		__field(int, nents)
		__field(u32, handle)
		__field(u32, length)
		__field(u64, offset)
		__field(bool, is_last)
	),
	TP_fast_assign(
		RPCRDMA_TASK_ASSIGN;
		__entry->pos = pos;
		__entry->nents = nents;
		__entry->handle = handle;
		__entry->length = length;
		__entry->offset = offset;
		__entry->is_last = is_last;
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER " pos=%u %u@0x%016llx:0x%08x (%s)",
		RPCRDMA_TASK_PRINT, __entry->pos, __entry->length,
		(unsigned long long)__entry->offset, __entry->handle,
		__entry->is_last ? "last" : "more")
);

DECLARE_EVENT_CLASS(rpcrdma_rs_write_chunk_class,
	TP_PROTO(RPCRDMA_TASK_PROTO, int nents,
		 u32 handle, u32 length, u64 offset, bool is_last),
	TP_ARGS(task_id, client_id, nents, handle, length, offset, is_last),
	TP_STRUCT__entry(
		RPCRDMA_TASK_ENTRY
		__field(int, nents)
		__field(u32, handle)
		__field(u32, length)
		__field(u64, offset)
		__field(bool, is_last)
	),
	TP_fast_assign(
		RPCRDMA_TASK_ASSIGN;
		__entry->nents = nents;
		__entry->handle = handle;
		__entry->length = length;
		__entry->offset = offset;
		__entry->is_last = is_last;
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER " %u@0x%016llx:0x%08x (%s)",
		RPCRDMA_TASK_PRINT, __entry->length,
		(unsigned long long)__entry->offset, __entry->handle,
		__entry->is_last ? "last" : "more")
);

#define DEFINE_WRITE_CHUNK_EVENT(name)					\
	DEFINE_EVENT(rpcrdma_rs_write_chunk_class, name,		\
		TP_PROTO(RPCRDMA_TASK_PROTO, int nents, u32 handle,	\
			 u32 length, u64 offset, bool is_last),		\
		TP_ARGS(task_id, client_id, nents, handle, length,	\
			offset, is_last))

DEFINE_WRITE_CHUNK_EVENT(xprtrdma_chunk_write);
DEFINE_WRITE_CHUNK_EVENT(xprtrdma_chunk_reply);

TRACE_EVENT(xprtrdma_marshal,
	TP_PROTO(RPCRDMA_TASK_PROTO, u32 xid, unsigned int hdrlen,
		 unsigned int headlen, unsigned int pagelen,
		 unsigned int taillen, unsigned int rtype, unsigned int wtype),
	TP_ARGS(task_id, client_id, xid, hdrlen, headlen, pagelen, taillen,
		rtype, wtype),
	TP_STRUCT__entry(
		RPCRDMA_TASK_ENTRY
		__field(u32, xid)
		__field(unsigned int, hdrlen)
		__field(unsigned int, headlen)
		__field(unsigned int, pagelen)
		__field(unsigned int, taillen)
		__field(unsigned int, rtype)
		__field(unsigned int, wtype)
	),
	TP_fast_assign(
		RPCRDMA_TASK_ASSIGN;
		__entry->xid = xid;
		__entry->hdrlen = hdrlen;
		__entry->headlen = headlen;
		__entry->pagelen = pagelen;
		__entry->taillen = taillen;
		__entry->rtype = rtype;
		__entry->wtype = wtype;
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER
		" xid=0x%08x hdr=%u xdr=%u/%u/%u %s/%s",
		RPCRDMA_TASK_PRINT, __entry->xid, __entry->hdrlen,
		__entry->headlen, __entry->pagelen, __entry->taillen,
		rpcrdma_show_form(__entry->rtype),
		rpcrdma_show_form(__entry->wtype))
);

TRACE_EVENT(xprtrdma_marshal_failed,
	TP_PROTO(RPCRDMA_TASK_PROTO, u32 xid, int ret),
	TP_ARGS(task_id, client_id, xid, ret),
	TP_STRUCT__entry(
		RPCRDMA_TASK_ENTRY
		__field(u32, xid)
		__field(int, ret)
	),
	TP_fast_assign(
		RPCRDMA_TASK_ASSIGN;
		__entry->xid = xid;
		__entry->ret = ret;
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER " xid=0x%08x ret=%d",
		RPCRDMA_TASK_PRINT, __entry->xid, __entry->ret)
);

TRACE_EVENT(xprtrdma_post_send,
	TP_PROTO(u32 cq_id, int completion_id, RPCRDMA_TASK_PROTO,
		 int num_sge, bool signaled),
	TP_ARGS(cq_id, completion_id, task_id, client_id, num_sge, signaled),
	TP_STRUCT__entry(
		__field(u32, cq_id)
		__field(int, completion_id)
		RPCRDMA_TASK_ENTRY
		__field(int, num_sge)
		__field(int, signaled)
	),
	TP_fast_assign(
		__entry->cq_id = cq_id;
		__entry->completion_id = completion_id;
		RPCRDMA_TASK_ASSIGN;
		__entry->num_sge = num_sge;
		__entry->signaled = signaled;
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER " cq.id=%u cid=%d (%d SGE%s) %s",
		RPCRDMA_TASK_PRINT, __entry->cq_id, __entry->completion_id,
		__entry->num_sge, (__entry->num_sge == 1 ? "" : "s"),
		(__entry->signaled ? "signaled" : ""))
);

TRACE_EVENT(xprtrdma_post_send_err,
	TP_PROTO(u32 cq_id, RPCRDMA_TASK_PROTO, int rc),
	TP_ARGS(cq_id, task_id, client_id, rc),
	TP_STRUCT__entry(
		__field(u32, cq_id)
		RPCRDMA_TASK_ENTRY
		__field(int, rc)
	),
	TP_fast_assign(
		__entry->cq_id = cq_id;
		RPCRDMA_TASK_ASSIGN;
		__entry->rc = rc;
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER " cq.id=%u rc=%d",
		RPCRDMA_TASK_PRINT, __entry->cq_id, __entry->rc)
);

TRACE_EVENT(xprtrdma_post_recvs,
	TP_PROTO(RPCRDMA_PEER_PROTO, u32 cq_id, unsigned int count, int posted),
	TP_ARGS(addr, port, cq_id, count, posted),
	TP_STRUCT__entry(
		__field(u32, cq_id)
		__field(unsigned int, count)
		__field(int, posted)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__entry->cq_id = cq_id;
		__entry->count = count;
		__entry->posted = posted;
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s cq.id=%d %u new recvs, %d active",
		RPCRDMA_PEER_PRINT, __entry->cq_id, __entry->count,
		__entry->posted)
);

TRACE_EVENT(xprtrdma_post_recvs_err,
	TP_PROTO(RPCRDMA_PEER_PROTO, u32 cq_id, int status),
	TP_ARGS(addr, port, cq_id, status),
	TP_STRUCT__entry(
		__field(u32, cq_id)
		__field(int, status)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__entry->cq_id = cq_id;
		__entry->status = status;
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s cq.id=%d rc=%d",
		RPCRDMA_PEER_PRINT, __entry->cq_id, __entry->status)
);

TRACE_EVENT(xprtrdma_post_linv_err,
	TP_PROTO(RPCRDMA_TASK_PROTO, int status),
	TP_ARGS(task_id, client_id, status),
	TP_STRUCT__entry(
		RPCRDMA_TASK_ENTRY
		__field(int, status)
	),
	TP_fast_assign(
		RPCRDMA_TASK_ASSIGN;
		__entry->status = status;
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER " status=%d",
		RPCRDMA_TASK_PRINT, __entry->status)
);

/*
 * Memory regions
 */

DECLARE_EVENT_CLASS(rpcrdma_rs_mr_class,
	TP_PROTO(RPCRDMA_TASK_PROTO, u32 mr_id, int nents,
		 u32 handle, u32 length, u64 offset, u32 dir),
	TP_ARGS(task_id, client_id, mr_id, nents, handle, length, offset, dir),
	TP_STRUCT__entry(
		RPCRDMA_TASK_ENTRY
		__field(u32, mr_id)
		__field(int, nents)
		__field(u32, handle)
		__field(u32, length)
		__field(u64, offset)
		__field(u32, dir)
	),
	TP_fast_assign(
		RPCRDMA_TASK_ASSIGN;
		__entry->mr_id = mr_id;
		__entry->nents = nents;
		__entry->handle = handle;
		__entry->length = length;
		__entry->offset = offset;
		__entry->dir = dir;
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER
		" mr.id=%u nents=%d %u@0x%016llx:0x%08x (%s)",
		RPCRDMA_TASK_PRINT, __entry->mr_id, __entry->nents,
		__entry->length, (unsigned long long)__entry->offset,
		__entry->handle, rpcrdma_show_direction(__entry->dir))
);

#define DEFINE_MR_EVENT(name)						\
	DEFINE_EVENT(rpcrdma_rs_mr_class, name,				\
		TP_PROTO(RPCRDMA_TASK_PROTO, u32 mr_id, int nents,	\
			 u32 handle, u32 length, u64 offset, u32 dir),	\
		TP_ARGS(task_id, client_id, mr_id, nents, handle,	\
			length, offset, dir))

DEFINE_MR_EVENT(xprtrdma_mr_map);
DEFINE_MR_EVENT(xprtrdma_mr_fastreg);
DEFINE_MR_EVENT(xprtrdma_mr_localinv);
DEFINE_MR_EVENT(xprtrdma_mr_reminv);

TRACE_EVENT(xprtrdma_mr_unmap,
	TP_PROTO(u32 mr_id, int nents, u32 handle, u32 length, u64 offset, u32 dir),
	TP_ARGS(mr_id, nents, handle, length, offset, dir),
	TP_STRUCT__entry(
		__field(u32, mr_id)
		__field(int, nents)
		__field(u32, handle)
		__field(u32, length)
		__field(u64, offset)
		__field(u32, dir)
	),
	TP_fast_assign(
		__entry->mr_id = mr_id;
		__entry->nents = nents;
		__entry->handle = handle;
		__entry->length = length;
		__entry->offset = offset;
		__entry->dir = dir;
	),
	TP_printk("mr.id=%u nents=%d %u@0x%016llx:0x%08x (%s)",
		__entry->mr_id, __entry->nents, __entry->length,
		(unsigned long long)__entry->offset, __entry->handle,
		rpcrdma_show_direction(__entry->dir))
);

TRACE_EVENT(xprtrdma_mrs_zap,
	TP_PROTO(RPCRDMA_TASK_PROTO),
	TP_ARGS(task_id, client_id),
	TP_STRUCT__entry(RPCRDMA_TASK_ENTRY),
	TP_fast_assign(RPCRDMA_TASK_ASSIGN;),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER, RPCRDMA_TASK_PRINT)
);

/*
 * Completions
 */

TRACE_EVENT(xprtrdma_wc_receive,
	TP_PROTO(u32 cq_id, int completion_id, u32 received,
		 unsigned long status, unsigned int vendor_err),
	TP_ARGS(cq_id, completion_id, received, status, vendor_err),
	TP_STRUCT__entry(
		__field(u32, cq_id)
		__field(int, completion_id)
		__field(u32, received)
		__field(unsigned long, status)
		__field(unsigned int, vendor_err)
	),
	TP_fast_assign(
		__entry->cq_id = cq_id;
		__entry->completion_id = completion_id;
		__entry->received = received;
		__entry->status = status;
		__entry->vendor_err = vendor_err;
	),
	TP_printk("cq.id=%u cid=%d status=%s (%lu/0x%x) received=%u",
		__entry->cq_id, __entry->completion_id,
		rdma_show_wc_status(__entry->status),
		__entry->status, __entry->vendor_err, __entry->received)
);

#define RPCRDMA_WC_ENTRY	__field(u32, cq_id)			\
				__field(int, completion_id)		\
				__field(unsigned long, status)		\
				__field(unsigned int, vendor_err)
#define RPCRDMA_WC_ASSIGN	__entry->cq_id = cq_id;			\
				__entry->completion_id = completion_id;	\
				__entry->status = status;		\
				__entry->vendor_err = vendor_err

DECLARE_EVENT_CLASS(rpcrdma_rs_wc_class,
	TP_PROTO(u32 cq_id, int completion_id, unsigned long status,
		 unsigned int vendor_err),
	TP_ARGS(cq_id, completion_id, status, vendor_err),
	TP_STRUCT__entry(RPCRDMA_WC_ENTRY),
	TP_fast_assign(RPCRDMA_WC_ASSIGN;),
	TP_printk("cq.id=%u cid=%d status=%s (%lu/0x%x)",
		__entry->cq_id, __entry->completion_id,
		rdma_show_wc_status(__entry->status),
		__entry->status, __entry->vendor_err)
);

DECLARE_EVENT_CLASS(rpcrdma_rs_mr_wc_class,
	TP_PROTO(u32 cq_id, int completion_id, unsigned long status,
		 unsigned int vendor_err),
	TP_ARGS(cq_id, completion_id, status, vendor_err),
	TP_STRUCT__entry(RPCRDMA_WC_ENTRY),
	TP_fast_assign(RPCRDMA_WC_ASSIGN;),
	TP_printk("cq.id=%u mr.id=%d status=%s (%lu/0x%x)",
		__entry->cq_id, __entry->completion_id,
		rdma_show_wc_status(__entry->status),
		__entry->status, __entry->vendor_err)
);

#define DEFINE_WC_EVENT(class, name)					\
	DEFINE_EVENT(class, name,					\
		TP_PROTO(u32 cq_id, int completion_id,			\
			 unsigned long status, unsigned int vendor_err),\
		TP_ARGS(cq_id, completion_id, status, vendor_err))

DEFINE_WC_EVENT(rpcrdma_rs_wc_class, xprtrdma_wc_send);
DEFINE_WC_EVENT(rpcrdma_rs_wc_class, xprtrdma_wc_probe);
DEFINE_WC_EVENT(rpcrdma_rs_mr_wc_class, xprtrdma_wc_li);
DEFINE_WC_EVENT(rpcrdma_rs_mr_wc_class, xprtrdma_wc_li_wake);
DEFINE_WC_EVENT(rpcrdma_rs_mr_wc_class, xprtrdma_wc_li_done);

/*
 * Reply
 */

TRACE_EVENT(xprtrdma_reply,
	TP_PROTO(RPCRDMA_TASK_PROTO, u32 xid, unsigned int credits),
	TP_ARGS(task_id, client_id, xid, credits),
	TP_STRUCT__entry(
		RPCRDMA_TASK_ENTRY
		__field(u32, xid)
		__field(unsigned int, credits)
	),
	TP_fast_assign(
		RPCRDMA_TASK_ASSIGN;
		__entry->xid = xid;
		__entry->credits = credits;
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER " xid=0x%08x credits=%u",
		RPCRDMA_TASK_PRINT, __entry->xid, __entry->credits)
);

DECLARE_EVENT_CLASS(rpcrdma_rs_reply_err_class,
	TP_PROTO(u32 xid, u32 version, u32 proc, RPCRDMA_PEER_PROTO),
	TP_ARGS(xid, version, proc, addr, port),
	TP_STRUCT__entry(
		__field(u32, xid)
		__field(u32, version)
		__field(u32, proc)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__entry->xid = xid;
		__entry->version = version;
		__entry->proc = proc;
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s xid=0x%08x version=%u proc=%u",
		RPCRDMA_PEER_PRINT, __entry->xid, __entry->version,
		__entry->proc)
);

#define DEFINE_REPLY_ERR_EVENT(name)					\
	DEFINE_EVENT(rpcrdma_rs_reply_err_class, name,			\
		TP_PROTO(u32 xid, u32 version, u32 proc,		\
			 RPCRDMA_PEER_PROTO),				\
		TP_ARGS(xid, version, proc, addr, port))

DEFINE_REPLY_ERR_EVENT(xprtrdma_reply_vers_err);
DEFINE_REPLY_ERR_EVENT(xprtrdma_reply_rqst_err);
DEFINE_REPLY_ERR_EVENT(xprtrdma_reply_short_err);
DEFINE_REPLY_ERR_EVENT(xprtrdma_reply_hdr_err);

TRACE_EVENT(xprtrdma_err_vers,
	TP_PROTO(RPCRDMA_TASK_PROTO, u32 xid, u32 low, u32 high),
	TP_ARGS(task_id, client_id, xid, low, high),
	TP_STRUCT__entry(
		RPCRDMA_TASK_ENTRY
		__field(u32, xid)
		__field(u32, min)
		__field(u32, max)
	),
	TP_fast_assign(
		RPCRDMA_TASK_ASSIGN;
		__entry->xid = xid;
		__entry->min = low;
		__entry->max = high;
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER " xid=0x%08x versions=[%u, %u]",
		RPCRDMA_TASK_PRINT, __entry->xid, __entry->min, __entry->max)
);

TRACE_EVENT(xprtrdma_err_chunk,
	TP_PROTO(RPCRDMA_TASK_PROTO, u32 xid),
	TP_ARGS(task_id, client_id, xid),
	TP_STRUCT__entry(
		RPCRDMA_TASK_ENTRY
		__field(u32, xid)
	),
	TP_fast_assign(
		RPCRDMA_TASK_ASSIGN;
		__entry->xid = xid;
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER " xid=0x%08x",
		RPCRDMA_TASK_PRINT, __entry->xid)
);

TRACE_EVENT(xprtrdma_fixup,
	TP_PROTO(RPCRDMA_TASK_PROTO, unsigned long fixup, size_t headlen,
		 unsigned int pagelen, size_t taillen),
	TP_ARGS(task_id, client_id, fixup, headlen, pagelen, taillen),
	TP_STRUCT__entry(
		RPCRDMA_TASK_ENTRY
		__field(unsigned long, fixup)
		__field(size_t, headlen)
		__field(unsigned int, pagelen)
		__field(size_t, taillen)
	),
	TP_fast_assign(
		RPCRDMA_TASK_ASSIGN;
		__entry->fixup = fixup;
		__entry->headlen = headlen;
		__entry->pagelen = pagelen;
		__entry->taillen = taillen;
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER " fixup=%lu xdr=%zu/%u/%zu",
		RPCRDMA_TASK_PRINT, __entry->fixup, __entry->headlen,
		__entry->pagelen, __entry->taillen)
);

TRACE_EVENT(xprtrdma_decode_seg,
	TP_PROTO(u32 handle, u32 length, u64 offset),
	TP_ARGS(handle, length, offset),
	TP_STRUCT__entry(
		__field(u32, handle)
		__field(u32, length)
		__field(u64, offset)
	),
	TP_fast_assign(
		__entry->handle = handle;
		__entry->length = length;
		__entry->offset = offset;
	),
	TP_printk("%u@0x%016llx:0x%08x", __entry->length,
		(unsigned long long)__entry->offset, __entry->handle)
);

/*
 * Calls of the server
 */

TRACE_EVENT(xprtrdma_cb_setup,
	TP_PROTO(RPCRDMA_PEER_PROTO, unsigned int reqs),
	TP_ARGS(addr, port, reqs),
	TP_STRUCT__entry(
		__field(unsigned int, reqs)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__entry->reqs = reqs;
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s %u reqs", RPCRDMA_PEER_PRINT, __entry->reqs)
);

DECLARE_EVENT_CLASS(rpcrdma_rs_callback_class,
	TP_PROTO(RPCRDMA_PEER_PROTO, u32 xid),
	TP_ARGS(addr, port, xid),
	TP_STRUCT__entry(
		__field(u32, xid)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__entry->xid = xid;
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s xid=0x%08x", RPCRDMA_PEER_PRINT, __entry->xid)
);

#define DEFINE_CALLBACK_EVENT(name)					\
	DEFINE_EVENT(rpcrdma_rs_callback_class, name,			\
		TP_PROTO(RPCRDMA_PEER_PROTO, u32 xid),			\
		TP_ARGS(addr, port, xid))

DEFINE_CALLBACK_EVENT(xprtrdma_cb_call);
DEFINE_CALLBACK_EVENT(xprtrdma_cb_reply);

/*
 * Events that the C implementation does not have
 */

TRACE_EVENT(xprtrdma_private_data,
	TP_PROTO(RPCRDMA_PEER_PROTO, bool found, bool reminv,
		 unsigned int send, unsigned int recv),
	TP_ARGS(addr, port, found, reminv, send, recv),
	TP_STRUCT__entry(
		__field(bool, found)
		__field(bool, reminv)
		__field(unsigned int, send)
		__field(unsigned int, recv)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__entry->found = found;
		__entry->reminv = reminv;
		__entry->send = send;
		__entry->recv = recv;
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s %s reminv=%d send=%u recv=%u",
		RPCRDMA_PEER_PRINT, __entry->found ? "announced" : "default",
		__entry->reminv, __entry->send, __entry->recv)
);

TRACE_EVENT(xprtrdma_conn_state,
	TP_PROTO(RPCRDMA_PEER_PROTO, const char *event, const char *from,
		 const char *to),
	TP_ARGS(addr, port, event, from, to),
	TP_STRUCT__entry(
		__string(event, event)
		__string(from, from)
		__string(to, to)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__assign_str(event);
		__assign_str(from);
		__assign_str(to);
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s %s: %s -> %s", RPCRDMA_PEER_PRINT,
		__get_str(event), __get_str(from), __get_str(to))
);

TRACE_EVENT(xprtrdma_probe,
	TP_PROTO(RPCRDMA_PEER_PROTO, unsigned int owed),
	TP_ARGS(addr, port, owed),
	TP_STRUCT__entry(
		__field(unsigned int, owed)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__entry->owed = owed;
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s owes %u replies", RPCRDMA_PEER_PRINT,
		__entry->owed)
);

TRACE_EVENT(xprtrdma_malformed_hdr,
	TP_PROTO(RPCRDMA_PEER_PROTO, u32 xid, const char *what,
		 unsigned int offset, unsigned int length),
	TP_ARGS(addr, port, xid, what, offset, length),
	TP_STRUCT__entry(
		__field(u32, xid)
		__string(what, what)
		__field(unsigned int, offset)
		__field(unsigned int, length)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__entry->xid = xid;
		__assign_str(what);
		__entry->offset = offset;
		__entry->length = length;
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s xid=0x%08x %s at byte %u of %u",
		RPCRDMA_PEER_PRINT, __entry->xid, __get_str(what),
		__entry->offset, __entry->length)
);

TRACE_EVENT(xprtrdma_given_up,
	TP_PROTO(RPCRDMA_TASK_PROTO, u32 xid, bool waited, bool answered),
	TP_ARGS(task_id, client_id, xid, waited, answered),
	TP_STRUCT__entry(
		RPCRDMA_TASK_ENTRY
		__field(u32, xid)
		__field(bool, waited)
		__field(bool, answered)
	),
	TP_fast_assign(
		RPCRDMA_TASK_ASSIGN;
		__entry->xid = xid;
		__entry->waited = waited;
		__entry->answered = answered;
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER " xid=0x%08x waited=%d answered=%d",
		RPCRDMA_TASK_PRINT, __entry->xid, __entry->waited,
		__entry->answered)
);

TRACE_EVENT(xprtrdma_reply_violation,
	TP_PROTO(RPCRDMA_TASK_PROTO, u32 xid, const char *what),
	TP_ARGS(task_id, client_id, xid, what),
	TP_STRUCT__entry(
		RPCRDMA_TASK_ENTRY
		__field(u32, xid)
		__string(what, what)
	),
	TP_fast_assign(
		RPCRDMA_TASK_ASSIGN;
		__entry->xid = xid;
		__assign_str(what);
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER " xid=0x%08x %s",
		RPCRDMA_TASK_PRINT, __entry->xid, __get_str(what))
);

TRACE_EVENT(xprtrdma_reminv_foreign,
	TP_PROTO(RPCRDMA_PEER_PROTO, u32 xid, u32 handle),
	TP_ARGS(addr, port, xid, handle),
	TP_STRUCT__entry(
		__field(u32, xid)
		__field(u32, handle)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__entry->xid = xid;
		__entry->handle = handle;
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s xid=0x%08x handle=0x%08x",
		RPCRDMA_PEER_PRINT, __entry->xid, __entry->handle)
);

TRACE_EVENT(xprtrdma_not_a_send,
	TP_PROTO(RPCRDMA_PEER_PROTO, u32 opcode),
	TP_ARGS(addr, port, opcode),
	TP_STRUCT__entry(
		__field(u32, opcode)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__entry->opcode = opcode;
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s opcode=%u",
		RPCRDMA_PEER_PRINT, __entry->opcode)
);

TRACE_EVENT(xprtrdma_bad_credits,
	TP_PROTO(RPCRDMA_PEER_PROTO, u32 xid, u32 granted, u32 used),
	TP_ARGS(addr, port, xid, granted, used),
	TP_STRUCT__entry(
		__field(u32, xid)
		__field(u32, granted)
		__field(u32, used)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__entry->xid = xid;
		__entry->granted = granted;
		__entry->used = used;
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s xid=0x%08x granted=%u used=%u",
		RPCRDMA_PEER_PRINT, __entry->xid, __entry->granted,
		__entry->used)
);

TRACE_EVENT(xprtrdma_cb_refused,
	TP_PROTO(RPCRDMA_PEER_PROTO, u32 xid, const char *reason),
	TP_ARGS(addr, port, xid, reason),
	TP_STRUCT__entry(
		__field(u32, xid)
		__string(reason, reason)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__entry->xid = xid;
		__assign_str(reason);
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s xid=0x%08x %s", RPCRDMA_PEER_PRINT,
		__entry->xid, __get_str(reason))
);

/*
 * Session: version and characteristics. Both roles have these events.
 */

TRACE_EVENT(xprtrdma_version_settled,
	TP_PROTO(RPCRDMA_PEER_PROTO, unsigned int version),
	TP_ARGS(addr, port, version),
	TP_STRUCT__entry(
		__field(unsigned int, version)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__entry->version = version;
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s version=%u", RPCRDMA_PEER_PRINT,
		__entry->version)
);

TRACE_EVENT(xprtrdma_terms_changed,
	TP_PROTO(RPCRDMA_PEER_PROTO, u32 generation, unsigned int version,
		 bool settled, bool watch, unsigned int send,
		 unsigned int recv, unsigned int expected, bool may_inv,
		 bool expect_inv, const char *backward),
	TP_ARGS(addr, port, generation, version, settled, watch, send, recv,
		expected, may_inv, expect_inv, backward),
	TP_STRUCT__entry(
		__field(u32, generation)
		__field(unsigned int, version)
		__field(bool, settled)
		__field(bool, watch)
		__field(unsigned int, send)
		__field(unsigned int, recv)
		__field(unsigned int, expected)
		__field(bool, may_inv)
		__field(bool, expect_inv)
		__string(backward, backward)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__entry->generation = generation;
		__entry->version = version;
		__entry->settled = settled;
		__entry->watch = watch;
		__entry->send = send;
		__entry->recv = recv;
		__entry->expected = expected;
		__entry->may_inv = may_inv;
		__entry->expect_inv = expect_inv;
		__assign_str(backward);
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s generation=%u version=%u settled=%d"
		" watch=%d send=%u recv=%u expected=%u may_inv=%d expect_inv=%d"
		" backward=%s",
		RPCRDMA_PEER_PRINT, __entry->generation, __entry->version,
		__entry->settled, __entry->watch, __entry->send,
		__entry->recv, __entry->expected, __entry->may_inv,
		__entry->expect_inv, __get_str(backward))
);

DECLARE_EVENT_CLASS(rpcrdma_rs_control_class,
	TP_PROTO(RPCRDMA_PEER_PROTO, u32 xid, const char *direction,
		 const char *operation, const char *values),
	TP_ARGS(addr, port, xid, direction, operation, values),
	TP_STRUCT__entry(
		__field(u32, xid)
		__string(direction, direction)
		__string(operation, operation)
		__string(values, values)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__entry->xid = xid;
		__assign_str(direction);
		__assign_str(operation);
		__assign_str(values);
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s xid=0x%08x %s %s (%s)", RPCRDMA_PEER_PRINT,
		__entry->xid, __get_str(direction), __get_str(operation),
		__get_str(values))
);

#define DEFINE_CONTROL_EVENT(name)					\
	DEFINE_EVENT(rpcrdma_rs_control_class, name,			\
		TP_PROTO(RPCRDMA_PEER_PROTO, u32 xid,			\
			 const char *direction, const char *operation,	\
			 const char *values),				\
		TP_ARGS(addr, port, xid, direction, operation, values))

DEFINE_CONTROL_EVENT(xprtrdma_control_sent);
DEFINE_CONTROL_EVENT(xprtrdma_control_received);

TRACE_EVENT(xprtrdma_session_breach,
	TP_PROTO(RPCRDMA_PEER_PROTO, u32 xid, const char *what),
	TP_ARGS(addr, port, xid, what),
	TP_STRUCT__entry(
		__field(u32, xid)
		__string(what, what)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__entry->xid = xid;
		__assign_str(what);
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s xid=0x%08x %s", RPCRDMA_PEER_PRINT,
		__entry->xid, __get_str(what))
);

TRACE_EVENT(xprtrdma_session_closed,
	TP_PROTO(RPCRDMA_PEER_PROTO, const char *reason),
	TP_ARGS(addr, port, reason),
	TP_STRUCT__entry(
		__string(reason, reason)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__assign_str(reason);
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s %s", RPCRDMA_PEER_PRINT, __get_str(reason))
);

TRACE_EVENT(xprtrdma_peer_remembered,
	TP_PROTO(RPCRDMA_PEER_PROTO, const char *what),
	TP_ARGS(addr, port, what),
	TP_STRUCT__entry(
		__string(what, what)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__assign_str(what);
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s %s", RPCRDMA_PEER_PRINT, __get_str(what))
);

TRACE_EVENT(xprtrdma_recvs_grow,
	TP_PROTO(RPCRDMA_PEER_PROTO, unsigned int size, unsigned int smaller,
		 int rc),
	TP_ARGS(addr, port, size, smaller, rc),
	TP_STRUCT__entry(
		__field(unsigned int, size)
		__field(unsigned int, smaller)
		__field(int, rc)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__entry->size = size;
		__entry->smaller = smaller;
		__entry->rc = rc;
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s size=%u smaller=%u rc=%d", RPCRDMA_PEER_PRINT,
		__entry->size, __entry->smaller, __entry->rc)
);

/*
 * RFC 5666
 */

TRACE_EVENT(xprtrdma_conf_answer,
	TP_PROTO(RPCRDMA_PEER_PROTO, const char *outcome, u32 call, u32 reply,
		 u32 align, bool reads),
	TP_ARGS(addr, port, outcome, call, reply, align, reads),
	TP_STRUCT__entry(
		__field(u32, call)
		__field(u32, reply)
		__field(u32, align)
		__field(bool, reads)
		__string(outcome, outcome)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__entry->call = call;
		__entry->reply = reply;
		__entry->align = align;
		__entry->reads = reads;
		__assign_str(outcome);
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s %s call=%u reply=%u align=%u reads=%d",
		RPCRDMA_PEER_PRINT, __get_str(outcome), __entry->call,
		__entry->reply, __entry->align, __entry->reads)
);

TRACE_EVENT(xprtrdma_padded_call,
	TP_PROTO(RPCRDMA_TASK_PROTO, u32 xid, u32 align, u32 pad),
	TP_ARGS(task_id, client_id, xid, align, pad),
	TP_STRUCT__entry(
		RPCRDMA_TASK_ENTRY
		__field(u32, xid)
		__field(u32, align)
		__field(u32, pad)
	),
	TP_fast_assign(
		RPCRDMA_TASK_ASSIGN;
		__entry->xid = xid;
		__entry->align = align;
		__entry->pad = pad;
	),
	TP_printk(SUNRPC_TRACE_TASK_SPECIFIER " xid=0x%08x align=%u pad=%u",
		RPCRDMA_TASK_PRINT, __entry->xid, __entry->align, __entry->pad)
);

TRACE_EVENT(xprtrdma_pull_reply,
	TP_PROTO(RPCRDMA_PEER_PROTO, u32 xid, u32 length, u32 segments),
	TP_ARGS(addr, port, xid, length, segments),
	TP_STRUCT__entry(
		__field(u32, xid)
		__field(u32, length)
		__field(u32, segments)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__entry->xid = xid;
		__entry->length = length;
		__entry->segments = segments;
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s xid=0x%08x length=%u segments=%u",
		RPCRDMA_PEER_PRINT, __entry->xid, __entry->length,
		__entry->segments)
);

TRACE_EVENT(xprtrdma_done_sent,
	TP_PROTO(RPCRDMA_PEER_PROTO, u32 xid),
	TP_ARGS(addr, port, xid),
	TP_STRUCT__entry(
		__field(u32, xid)
		RPCRDMA_PEER_ENTRY
	),
	TP_fast_assign(
		__entry->xid = xid;
		RPCRDMA_PEER_ASSIGN;
	),
	TP_printk("peer=[%s]:%s xid=0x%08x", RPCRDMA_PEER_PRINT, __entry->xid)
);

#endif /* _TRACE_RPCRDMA_RS_H */

/* <trace/define_trace.h> must be outside the guard. */
#include <trace/define_trace.h>
