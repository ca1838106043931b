// SPDX-License-Identifier: GPL-2.0
/*
 * The service, as nfsd is one: its threads receive with svc_recv(). The kernel's own svc.o and
 * svc_xprt.o do the rest. It knows the procedures of kinds.c.
 */
#include <linux/sunrpc/svc.h>
#include <linux/sunrpc/svc_xprt.h>
#include <linux/sunrpc/svcsock.h>
#include <linux/wait.h>
#include <net/net_namespace.h>
#include "both.h"

static struct svc_serv *service;

/* Whether a call has to be right: a hostile requester vouches for some of its calls. */
static bool must_be_right(const struct svc_rqst *rqst)
{
	return !h_hostile || h_vouched(be32_to_cpu(rqst->rq_xid));
}

/* Returns the seed of a call. The stand-in's calls have their XID as a seed. */
static u32 check_arguments(struct svc_rqst *rqst, const struct h_kind *kind)
{
	u32 i, word, seed = be32_to_cpu(rqst->rq_xid);

	for (i = 0; i < kind->call_head / 4; i++) {
		h_expect(!xdr_stream_decode_u32(&rqst->rq_arg_stream, &word),
			 "a call is too short for its arguments");
		if (h_both && !i)
			seed = word;
		if (word != seed && must_be_right(rqst))
			h_violation("a call has the arguments of another one");
	}
	return seed;
}

static void check_payload(struct svc_rqst *rqst, const struct h_kind *kind, u32 seed)
{
	static u8 bytes[2 << 20] H_SCRATCH;
	struct xdr_buf payload;

	h_expect(xdr_stream_subsegment(&rqst->rq_arg_stream, &payload, kind->send_pages),
		 "a call has no payload");
	if (!h_payloads)
		return;
	h_expect(!read_bytes_from_xdr_buf(&payload, 0, bytes, kind->send_pages),
		 "a payload cannot be read");
	if (must_be_right(rqst) && !h_payload_is(bytes, 0, kind->send_pages, seed))
		h_violation("a payload of %u bytes is wrong", kind->send_pages);
}

struct page *h_cached;
bool h_truncates, h_uncounted, h_cached_used;

/* Takes pages of the thread for the payload of its reply. Returns the first one. */
static struct page **take_pages(struct svc_rqst *rqst, u32 len, u32 seed)
{
	struct page **pages = rqst->rq_next_page, **cached = pages + h_truncates;
	u32 i;

	if (h_cached && (len <= PAGE_SIZE || h_truncates)) {
		h_cached_used = true;
		put_page(*cached);
		get_page(h_cached);
		*cached = h_cached;
	}
	rqst->rq_next_page += DIV_ROUND_UP(len, PAGE_SIZE) - h_uncounted;
	for (i = 0; i < len; i += PAGE_SIZE)
		h_payload_fill(page_address(pages[i >> PAGE_SHIFT]), i,
			       min_t(u32, len - i, PAGE_SIZE), seed);
	return pages;
}

/*
 * Encodes a payload and its length, as NFSv4 of nfsd does the text of a symbolic link: the mark is
 * at the word with the length, which is written afterwards.
 */
static void encode_link(struct svc_rqst *rqst, u32 len, u32 seed)
{
	struct xdr_stream *xdr = &rqst->rq_res_stream;
	u32 at = xdr_stream_pos(xdr), padded = round_up(len, 4);
	__be32 count = cpu_to_be32(len), zero = 0, *text;

	h_expect(xdr_reserve_space(xdr, sizeof(count)), "there is no room for a length");
	text = xdr_reserve_space(xdr, PAGE_SIZE);
	h_expect(text, "there is no room for a link");
	h_payload_fill((u8 *)text, 0, len, seed);
	h_expect(!svc_encode_result_payload(rqst, at, len), "the link cannot be marked");
	write_bytes_to_xdr_buf(xdr->buf, at, &count, sizeof(count));
	at += sizeof(count);
	xdr_truncate_encode(xdr, at + padded);
	write_bytes_to_xdr_buf(xdr->buf, at + len, &zero, padded - len);
	rqst->rq_next_page = xdr->page_ptr + 1;
}

/* Encodes the results. `serial` is that of the execution, and 0 for calls of the stand-in. */
static void encode(struct svc_rqst *rqst, const struct h_kind *kind, u32 serial)
{
	struct xdr_stream *xdr = &rqst->rq_res_stream;
	__be32 *p = xdr_reserve_space(xdr, kind->reply_head - 4 * kind->link);
	u32 i, payload = kind->receive_pages, at, seed = be32_to_cpu(rqst->rq_xid) + serial;

	h_expect(p, "there is no room for results");
	*p++ = rqst->rq_xid;
	for (i = 1; i < kind->reply_head / 4 - 1; i++)
		*p++ = cpu_to_be32(seed);
	if (kind->link)
		return encode_link(rqst, payload, seed);
	*p = cpu_to_be32(payload);
	if (!payload)
		return;
	at = xdr_stream_pos(xdr);
	svcxdr_encode_opaque_pages(rqst, xdr, take_pages(rqst, payload, seed), 0,
				   payload);
	if (kind->marked)
		h_expect(!svc_encode_result_payload(rqst, at, payload) || h_hostile,
			 "the payload cannot be marked");
	/* The kernel warns if a payload with padding is taken out. */
	if (h_truncates && payload % 4 == 0) {
		xdr_truncate_encode(xdr, at);
		rqst->rq_next_page = xdr->page_ptr + 1;
	}
}

bool h_procedures_wait;
static DECLARE_WAIT_QUEUE_HEAD(procedures_wait);

void h_procedures_go(void)
{
	h_procedures_wait = false;
	wake_up_all(&procedures_wait);
}

static bool has_all_bytes(const struct svc_rqst *rqst, const struct h_kind *kind)
{
	return rqst->rq_arg_stream.nwords >= DIV_ROUND_UP(kind->call_head + kind->send_pages, 4);
}

/* Whether a call of a hostile requester has all its bytes, and pages for its results. */
static bool is_whole(const struct svc_rqst *rqst, const struct h_kind *kind)
{
	u32 room = rqst->rq_server->sv_max_payload;

	return kind->reply_head && has_all_bytes(rqst, kind) &&
	       max(kind->receive_pages, kind->send_pages) <= room;
}

static int dispatch(struct svc_rqst *rqst)
{
	const struct h_kind *kind = &h_kinds[rqst->rq_proc];
	u32 seed, serial = 0;

	wait_event(procedures_wait, !h_procedures_wait);
	if (must_be_right(rqst) && !has_all_bytes(rqst, kind))
		h_violation("a call has fewer bytes than were sent");
	if (h_hostile && !is_whole(rqst, kind)) {
		*rqst->rq_accept_statp = rpc_garbage_args;
		return 1;
	}
	seed = check_arguments(rqst, kind);
	if (kind->send_pages)
		check_payload(rqst, kind, seed);
	if (h_both)
		serial = h_execute(be32_to_cpu(rqst->rq_xid), seed, rqst->rq_proc);
	encode(rqst, kind, serial);
	return 1;
}

/* Are never called: dispatch() does not call the functions of a procedure. */
static __be32 do_nothing(struct svc_rqst *rqst)
{
	return rpc_system_err;
}

static bool encode_nothing(struct svc_rqst *rqst, struct xdr_stream *xdr)
{
	return false;
}

static const struct svc_procedure procedures[H_ALL_KINDS] = {
	[0 ... H_ALL_KINDS - 1] = { .pc_func = do_nothing, .pc_encode = encode_nothing },
};
static const struct svc_version version = {
	.vs_vers = 3, .vs_nproc = H_ALL_KINDS, .vs_proc = procedures, .vs_xdrsize = 64,
	.vs_dispatch = dispatch,
};
static const struct svc_version *versions[] = { NULL, NULL, NULL, &version };

static enum svc_auth_status authenticate(struct svc_rqst *rqst)
{
	return SVC_OK;
}

static struct svc_program program = {
	.pg_prog = 100003, .pg_nvers = ARRAY_SIZE(versions), .pg_vers = versions,
	.pg_name = "nfsd", .pg_class = "nfsd", .pg_authenticate = authenticate,
	.pg_init_request = svc_generic_init_request,
};

unsigned int h_most_looks;

/* Counts how often a thread receives, and ends the program if that is too often. */
static void count_look(void)
{
	if (h_most_looks && !--h_most_looks)
		u_fail("threads of the service look for messages again and again");
}

static int run(void *data)
{
	struct svc_rqst *rqst = data;

	svc_thread_init_status(rqst, 0);
	while (!svc_thread_should_stop(rqst)) {
		svc_recv(rqst, 0);
		count_look();
	}
	svc_exit_thread(rqst);
	return 0;
}

bool h_serving(void)
{
	return service;
}

static unsigned int threads;
unsigned int h_serve_size = 1 << 20;

/* The listener; NULL: the service does not listen. */
static struct svc_xprt *listener(void)
{
	return list_first_entry_or_null(&service->sv_permsocks, struct svc_xprt, xpt_list);
}

static int listen(void)
{
	return svc_xprt_create(service, "rdma", &init_net, AF_INET, 20049, SVC_SOCK_ANONYMOUS,
			       NULL);
}

static void change_listener(void *unused)
{
	struct svc_xprt *old = listener();
	int error = 0;

	if (old)
		svc_xprt_close(old);
	else
		error = listen();
	h_expect(error >= 0 || h_hostile, "the service does not listen: %d", error);
}

bool h_serve_listens(void)
{
	return listener();
}

void h_serve_listen(bool listen)
{
	if (listen != h_serve_listens())
		h_spawn("nfsd gets or loses a listener", change_listener, NULL);
	h_settle();
}

static void start(void *unused)
{
	int error;

	service = svc_create(&program, h_serve_size, run);
	h_expect(service, "the service cannot be created");
	error = svc_set_num_threads(service, 0, threads);
	h_expect(!error, "the service has no thread: %d", error);
	error = listen();
	h_expect(error >= 0, "the service does not listen: %d", error);
}

static void stop(void *unused)
{
	svc_xprt_destroy_all(service, &init_net, false);
	svc_set_num_threads(service, 0, 0);
	svc_destroy(&service);
}

bool h_threads_change;

static void set_threads(void *unused)
{
	int error = svc_set_num_threads(service, 0, threads);

	h_threads_change = false;
	h_expect(!error, "the service has no thread: %d", error);
}

void h_serve_start(unsigned int count)
{
	threads = count;
	h_spawn("nfsd starts", start, NULL);
	h_settle();
}

void h_serve_threads(unsigned int count)
{
	threads = count;
	h_threads_change = true;
	h_spawn("nfsd gets threads", set_threads, NULL);
}

void h_serve_begin(void)
{
	h_load();
	h_serve_start(1);
	h_cm_request();
	h_settle();
	h_expect(h_qp, "the connection is not accepted");
	h_ready = true;
	h_serve(H_INLINE);
}

void h_serve(enum h_kind_number kind)
{
	u32 xid = h_ask(kind);

	h_live(0);
	h_expect(h_answered(xid), "%s: the call is not answered", h_kinds[kind].name);
}

struct svc_xprt *h_serve_connection(void)
{
	return list_first_entry_or_null(&service->sv_tempsocks, struct svc_xprt, xpt_list);
}

void h_serve_stop(void)
{
	h_spawn("nfsd stops", stop, NULL);
	h_settle();
	h_pass(10000);
}

void h_serve_end(void)
{
	h_serve_stop();
	h_check_requester();
	h_expect_breach();
	h_unload();
}
