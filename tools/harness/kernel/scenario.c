// SPDX-License-Identifier: GPL-2.0
/* Scenarios without a fault: each kind of RPC, with each kind of reply. */
#include "both.h"

static const struct h_reply plain;
static const struct h_reply remote = { .how = H_INV_OWN };

/* Runs one RPC of each kind, and unloads the module. */
static void each_kind(const struct h_reply *how)
{
	unsigned int kind;

	h_begin();
	h_connect();
	for (kind = 0; kind < H_KINDS; kind++) {
		struct h_rpc *rpc = h_rpc_new(kind);

		h_rpc_run(rpc, how);
		h_rpc_free(rpc);
		h_expect(h_window() == h_grant && !h_window_used(), "%s: %u credits of %u in use",
			 h_kinds[kind].name, h_window_used(), h_window());
	}
	h_check_calm();
	h_end();
}

/* Serves one call of each kind, twice, and unloads the module. */
static void served(void)
{
	unsigned int i;

	h_serve_begin();
	for (i = 0; i < 2 * H_KINDS; i++)
		h_serve(i % H_KINDS);
	h_serve_end();
}

/* Serves short payloads, which nfsd marks as those of a READ, or as the text of a link. */
static void served_links(void)
{
	static const u32 lengths[] = { 5, 8, 63, 4095 };
	struct h_kind kind = {
		"link", .marked = true, .call_head = 80, .reply_head = 104,
	};
	unsigned int i;

	h_serve_begin();
	for (i = 0; i < 2 * ARRAY_SIZE(lengths); i++) {
		kind.link = i % 2;
		kind.receive_pages = lengths[i / 2];
		h_serve(h_odd_kind(&kind));
	}
	h_serve_end();
}

/* The last page of a payload in several segments is not full. */
static void short_last_page(void)
{
	static const struct h_kind kind = {
		"write_20k", .send_pages = 5 * PAGE_SIZE + 100, .marked = true, .scattered = true,
		.call_head = 88, .reply_head = 112,
	};
	unsigned int i;

	h_region_depth = 2;
	h_begin();
	h_connect();
	for (i = 0; i < 2; i++) {
		struct h_rpc *rpc = h_rpc_new(h_odd_kind(&kind));

		h_rpc_run(rpc, &plain);
		h_rpc_free(rpc);
	}
	h_check_calm();
	h_end();
}

/* The requester does not support remote invalidation. */
static void served_without_invalidation(void)
{
	h_answer.remote_invalidation = false;
	served();
}

static void local_invalidation(void)
{
	each_kind(&plain);
}

static void remote_invalidation(void)
{
	each_kind(&remote);
}

/* The server returns the write chunk unused, and sends the results inline. */
static void chunk_unused(void)
{
	static const struct h_reply how = { .unused = true, .shorter = 4000 };
	struct h_rpc *rpc;

	h_begin();
	h_connect();
	rpc = h_rpc_new(H_READ_4K);
	h_rpc_run(rpc, &how);
	h_expect(rpc->received == 96, "%u bytes were read", rpc->received);
	h_rpc_free(rpc);
	h_check_calm();
	h_end();
}

/* A READ reaches the end of the file, so that its payload is shorter than the write chunk. */
static void chunk_partly_used(void)
{
	static const struct h_reply how = { .how = H_INV_OWN, .shorter = 1001 };
	struct h_rpc *rpc;

	h_begin();
	h_connect();
	rpc = h_rpc_new(H_READ_1M_SCATTERED);
	h_rpc_run(rpc, &how);
	h_expect(rpc->received == (1 << 20) - 1001, "%u bytes were read", rpc->received);
	h_rpc_free(rpc);
	h_check_calm();
	h_end();
}

static void error_reply(void)
{
	static const struct h_reply how = { .error = true };
	struct h_rpc *rpc;
	struct h_call *call;

	h_begin();
	h_connect();
	rpc = h_rpc_new(H_READ_4K);
	h_rpc_start(rpc, 0);
	call = h_peer_call(rpc->xid);
	h_answer_call(call, &how);
	h_live(0);
	h_expect(rpc->released && rpc->status < 0, "an RPC succeeds in spite of an error reply");
	h_rpc_free(rpc);
	h_expect(!h_disconnects, "the connection is closed");
	h_end();
}

static void callback(void)
{
	h_begin();
	h_connect();
	h_callbacks_begin();
	h_call_back(0x77);
	h_live(0);
	h_expect(h_callback_answer(), "the callback service received no call");
	h_live(0);
	h_expect(h_backward_replies == 1, "the server received no reply");
	h_callbacks_end();
	h_check_calm();
	h_end();
}

/* One reply arrives twice. Another reply arrives whose XID belongs to no call. */
static void stray_replies(void)
{
	static const struct h_reply twice = { .keep = true };
	struct h_rpc *rpc;

	h_begin();
	h_connect();
	rpc = h_rpc_new(H_INLINE);
	h_rpc_run(rpc, &twice);
	h_answer_call(h_peer_call(rpc->xid), &plain);
	h_live(0);
	h_answer_unknown(0x4711, 0);
	h_live(0);
	h_rpc_free(rpc);
	h_check_calm();
	h_expect(h_window() == h_grant, "%u credits are left", h_window());
	h_end();
}

/* The peer ends the connection while a call waits. The call is sent again over the next one. */
static void reconnect(void)
{
	struct h_rpc *rpc;

	h_begin();
	h_connect();
	rpc = h_rpc_new(H_READ_4K);
	h_rpc_start(rpc, 0);
	h_peer_drop_all();
	h_cm_disconnected();
	h_settle();
	h_live(20000);
	h_expect(h_connections == 2, "%u connections were made", h_connections);
	h_expect(h_peer_call(rpc->xid), "the call was not sent again");
	h_answer_call(h_peer_call(rpc->xid), &remote);
	h_live(0);
	h_rpc_check(rpc);
	h_rpc_free(rpc);
	h_end();
}

/* The device returns, and the call is sent and answered. */
static void end_with_device(struct h_rpc *rpc)
{
	h_spawn("a device", h_device_add, NULL);
	h_settle();
	h_live(90000);
	h_expect(h_peer_call(rpc->xid), "the call was not sent");
	h_answer_call(h_peer_call(rpc->xid), &plain);
	h_live(0);
	h_rpc_check(rpc);
	h_rpc_free(rpc);
	h_end();
}

static void device_removal(void)
{
	struct h_rpc *rpc;

	h_begin();
	h_connect();
	rpc = h_rpc_new(H_WRITE_4K);
	h_rpc_start(rpc, 0);
	h_peer_drop_all();
	h_spawn("the removal of the device", h_device_remove, NULL);
	h_settle();
	h_expect(!h_objects(), "%u objects outlive their device", h_objects());
	end_with_device(rpc);
}

/* The device is removed while the peer does not answer. The removal ends the attempt to connect. */
static void removal_amid_connecting(void)
{
	struct h_rpc *rpc;

	h_begin();
	h_connect();
	h_answer.silent = true;
	h_cm_disconnected();
	h_settle();
	rpc = h_rpc_new(H_INLINE);
	h_rpc_start(rpc, 0);
	h_expect(h_objects(), "there is no attempt to connect");
	h_spawn("the removal of the device", h_device_remove, NULL);
	h_settle();
	h_expect(!h_objects(), "the removal waits for the peer's answer");
	h_answer.silent = false;
	end_with_device(rpc);
}

/* The same while the server owes an answer about its configuration. */
static void removal_amid_configuring(void)
{
	struct h_rpc *rpc;

	h_begin();
	h_tune("rdma_conf", 1);
	rpc = h_rpc_new(H_INLINE);
	h_rpc_start(rpc, 0);
	h_expect(h_qp && !h_peer_call(rpc->xid), "the server is not asked");
	h_spawn("the removal of the device", h_device_remove, NULL);
	h_pass(1000);
	h_expect(!h_objects(), "the removal waits for the peer's answer");
	h_tune("rdma_conf", 0);
	end_with_device(rpc);
}

/* A call is killed while it waits. The reply arrives after its memory has been invalidated. */
static void abandoned(void)
{
	struct h_rpc *rpc;
	u32 xid;

	h_begin();
	h_connect();
	rpc = h_rpc_new(H_READ_4K);
	h_rpc_start(rpc, 0);
	xid = rpc->xid;
	h_rpc_cancel(rpc);
	/* The transport may wait for the reply before it invalidates the memory. */
	h_live(2500);
	h_expect(rpc->released, "the RPC does not end");
	h_expect(h_window() == h_grant - 1, "the server works on a call, and %u calls may be sent",
		 h_window());
	h_rpc_free(rpc);
	h_answer_unknown(xid, 0);
	h_live(0);
	h_check_calm();
	h_expect(h_window() == h_grant, "%u credits are left", h_window());
	h_end();
}

/* A call is not answered in time. The file `connections` says that the connection was not idle. */
static void late_and_lost(void)
{
	struct h_rpc *rpc;
	const char *line;

	h_begin();
	h_connect();
	rpc = h_rpc_new(H_INLINE);
	h_rpc_start(rpc, 0);
	h_peer_drop_all();
	h_rpc_time_out(rpc);
	h_live(8000);
	h_expect(h_peer_call(rpc->xid) && h_connections == 2, "the call is not sent again");
	line = h_file_read("connections");
	h_expect(line && strstr(line, "lost=forced"), "the connection is shown so: %s", line);
	h_answer_call(h_peer_call(rpc->xid), &plain);
	h_live(0);
	h_rpc_check(rpc);
	h_rpc_free(rpc);
	h_end();
}

const struct h_scenario h_scenarios[] = {
	{ "served", served },
	{ "served_links", served_links },
	{ "short_last_page", short_last_page },
	{ "served_without_invalidation", served_without_invalidation },
	{ "both_kinds", h_both_kinds },
	{ "both_kinds_two", h_both_kinds_two },
	{ "local_invalidation", local_invalidation },
	{ "remote_invalidation", remote_invalidation },
	{ "chunk_unused", chunk_unused },
	{ "chunk_partly_used", chunk_partly_used },
	{ "error_reply", error_reply },
	{ "callback", callback },
	{ "stray_replies", stray_replies },
	{ "reconnect", reconnect },
	{ "device_removal", device_removal },
	{ "removal_amid_connecting", removal_amid_connecting },
	{ "removal_amid_configuring", removal_amid_configuring },
	{ "abandoned", abandoned },
	{ "second_connection", h_second_connection },
	{ "reconnect_without_memory", h_reconnect_without_memory },
	{ "idle_without_memory", h_idle_without_memory },
	{ "lost_and_idle", h_lost_and_idle },
	{ "grant_before_use", h_grant_before_use },
	{ "resized", h_resized },
	{ "tested", h_tested },
	{ "slow_in_two", h_slow_in_two },
	{ "doubted_in_two", h_doubted_in_two },
	{ "broken_in_two", h_broken_in_two },
	{ "lease_of_zero", h_lease_of_zero },
	{ "reads_late", h_reads_late },
	{ "reads_late_and_lost", h_reads_late_and_lost },
	{ "reads_late_and_many", h_reads_late_and_many },
	{ "bounced_calls", h_bounced_calls },
	{ "bounced_before", h_bounced_before },
	{ "bounced_calls_in_parts", h_bounced_calls_in_parts },
	{ "bounced_reads", h_bounced_reads },
	{ "bounced_by_page", h_bounced_by_page },
	{ "bounced_by_page_served", h_bounced_by_page_served },
	{ "mapping_refused", h_mapping_refused },
	{ "mapping_never", h_mapping_never },
	{ "mapping_refused_served", h_mapping_refused_served },
	{ "mapping_never_served", h_mapping_never_served },
	{ "mapping_refused_and_lost", h_mapping_refused_and_lost },
	{ "mapping_refused_beside", h_mapping_refused_beside },
	{ "fetched_unmapped", h_fetched_unmapped },
	{ "regions", h_regions },
	{ "regions_awaited", h_regions_awaited },
	{ "pulled_replies", h_pulled_replies },
	{ "pulled_into_fragments", h_pulled_into_fragments },
	{ "pulled_twice", h_pulled_twice },
	{ "pulled_beside_malformed", h_pulled_beside_malformed },
	{ "pulled_beside_pulled", h_pulled_beside_pulled },
	{ "pulled_before_malformed", h_pulled_before_malformed },
	{ "malformed_confirms_nothing", h_malformed_confirms_nothing },
	{ "pulled_when_full", h_pulled_when_full },
	{ "pulled_beside_calls", h_pulled_beside_calls },
	{ "quiet_replies", h_quiet_replies },
	{ "quiet_requester", h_quiet_requester },
	{ "quiet_and_busy", h_quiet_and_busy },
	{ "quiet_and_long", h_quiet_and_long },
	{ "quiet_and_many", h_quiet_and_many },
	{ "quiet_and_reused", h_quiet_and_reused },
	{ "quiet_and_shared", h_quiet_and_shared },
	{ "quiet_and_truncated", h_quiet_and_truncated },
	{ "quiet_and_uncounted", h_quiet_and_uncounted },
	{ "flood", h_flood },
	{ "flood_lost", h_flood_lost },
	{ "flood_of_calls_lost", h_flood_of_calls_lost },
	{ "flood_unaccepted", h_flood_unaccepted },
	{ "short_queue", h_short_queue },
	{ "no_queue", h_no_queue },
	{ "encrypted_again", h_encrypted_again },
	{ "silent_call", h_silent_call },
	{ "steps_fail", h_steps_fail },
	{ "single_reads", h_single_reads },
	{ "exposed", h_exposed },
	{ "exposed_limit", h_exposed_limit },
	{ "exposed_until_invalidated", h_exposed_until_invalidated },
	{ "exposed_in_turn", h_exposed_in_turn },
	{ "exposed_too_late", h_exposed_too_late },
	{ "exposed_in_part", h_exposed_in_part },
	{ "exposed_in_flood", h_exposed_in_flood },
	{ "exposed_in_flood_lost", h_exposed_in_flood_lost },
	{ "removed_without_threads", h_removed_without_threads },
	{ "removed_and_accepted", h_removed_and_accepted },
	{ "removed_in_flood", h_removed_in_flood },
	{ "removed_while_busy", h_removed_while_busy },
	{ "backlog", h_backlog },
	{ "ready_at_once", h_ready_at_once },
	{ "accept_fails", h_accept_fails },
	{ "receives_refused", h_receives_refused },
	{ "class_refused", h_class_refused },
	{ "class_refused_mounted", h_class_refused_mounted },
	{ "invalidation_refused", h_invalidation_refused },
	{ "swap_refused", h_swap_refused },
	{ "tls_refused", h_tls_refused },
	{ "pages_unknown", h_pages_unknown },
	{ "callback_replies_held", h_callback_replies_held },
	{ "replies_held", h_replies_held },
	{ "reply_held_and_lost", h_reply_held_and_lost },
	{ "replies_refused", h_replies_refused },
	{ "calls_held", h_calls_held },
	{ "mapping_held", h_mapping_held },
	{ "calls_cancelled_unsent", h_calls_cancelled_unsent },
	{ "short_for_a_moment", h_short_for_a_moment },
	{ "short_of_threads", h_short_of_threads },
	{ "short_of_one", h_short_of_one },
	{ "short_of_unused", h_short_of_unused },
	{ "short_of_kept", h_short_of_kept },
	{ "kept_bound", h_kept_bound },
	{ "kept_returned", h_kept_returned },
	{ "kept_closing", h_kept_closing },
	{ "short_of_replies", h_short_of_replies },
	{ "short_given_up", h_short_given_up },
	{ "short_for_many", h_short_for_many },
	{ "earlier_callback", h_earlier_callback },
	{ "earlier_credit", h_earlier_credit },
	{ "earlier_close", h_earlier_close },
	{ "late_and_lost", late_and_lost },
	{ "verifier_grows", h_verifier_grows },
	{ "verifier_used", h_verifier_used },
	{ "verifier_unexpected", h_verifier_unexpected },
	{ "verifier_late", h_verifier_late },
	{ "verifier_outdated", h_verifier_outdated },
	{ "reply_refused", h_reply_refused },
	{ "reply_refused_and_short", h_reply_refused_and_short },
	{ "timeout_amid_reply", h_timeout_amid_reply },
	{ "timeout_amid_loss", h_timeout_amid_loss },
	{ "called_without_credit", h_called_without_credit },
	{ "called_and_lost", h_called_and_lost },
	{ "called_while_closing", h_called_while_closing },
	{ "called_amid_losses", h_called_amid_losses },
	{ "dead_server", h_dead_server },
	{ "dead_requester", h_dead_requester },
	{ "orderly", h_orderly },
	{ "orderly_served", h_orderly_served },
	{ "unestablished_closed", h_unestablished_closed },
	{ "unestablished_shut_down", h_unestablished_shut_down },
	{ "class_requested", h_class_requested },
	{ "class_accepted", h_class_accepted },
	{ "class_listened", h_class_listened },
	{ "ports_fail", h_ports_fail },
	{ "ports_early", h_ports_early },
	{ "ports_absent", h_ports_absent },
	{ "ports_routed", h_ports_routed },
	{ "ports_infiniband", h_ports_infiniband },
	{ "ports_both", h_ports_both },
	{ "ports_single", h_ports_single },
	{ "ports_silent", h_ports_silent },
	{ "ports_rejected", h_ports_rejected },
	{ "ports_lonely", h_ports_lonely },
	{ "recall", h_recall },
	{ "recall_lost", h_recall_lost },
	{ "recall_removed_while_busy", h_recall_removed_while_busy },
	{ "recall_shut_down", h_recall_shut_down },
	{ "recall_unanswered", h_recall_unanswered },
	{ "recall_shut_down_and_short", h_recall_shut_down_and_short },
	{ "recall_answered_with_chunks", h_recall_answered_with_chunks },
	{ "recall_shortly_answered", h_recall_shortly_answered },
	{ "recall_grants", h_recall_grants },
	{ "recall_too_long", h_recall_too_long },
	{ "recall_forbidden", h_recall_forbidden },
	{ "recall_forbidden_later", h_recall_forbidden_later },
	{ "malformed_replies", h_malformed_replies },
	{ "malformed_in_two", h_malformed_in_two },
	{ "malformed_answers", h_malformed_answers },
	{ "malformed_calls", h_malformed_calls },
	{ "short_callbacks", h_short_callbacks },
	{ "unserved_callbacks", h_unserved_callbacks },
	{ "excessive_callbacks", h_excessive_callbacks },
	{ "excessive_calls", h_excessive_calls },
	{ "grants_limited", h_grants_limited },
	{ "grants_zero", h_grants_zero },
	{ "inline_too_long", h_inline_too_long },
	{ "inline_payload", h_inline_payload },
	{ "inline_beside_chunk", h_inline_beside_chunk },
	{ "reply_chunk_unused", h_reply_chunk_unused },
	{ "request_without_memory", h_request_without_memory },
	{ "request_without_regions", h_request_without_regions },
	{ "connect_without_memory", h_connect_without_memory },
	{ "connect_without_memory_two", h_connect_without_memory_two },
	{ "fragmented_calls", h_fragmented_calls },
	{ "fragmented_served", h_fragmented_served },
	{ "fragmented_most", h_fragmented_most },
	{ "fragmented_last", h_fragmented_last },
	{ "fragmented_many", h_fragmented_many },
	{ "fragmented_chunks", h_fragmented_chunks },
	{ "regions_few", h_regions_few },
	{ "moved", h_moved },
	{ "moved_served", h_moved_served },
	{ "listener_lost", h_listener_lost },
	{ "listener_lost_and_ended", h_listener_lost_and_ended },
	{ "removed_at_each_step", h_removed_at_each_step },
	{ "removed_amid_each_step", h_removed_amid_each_step },
	{}
};
