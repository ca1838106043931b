/* SPDX-License-Identifier: GPL-2.0 */
/* Declares the scenarios that scenario.c lists and that are in other files. */
#ifndef HARNESS_SCENARIOS_H
#define HARNESS_SCENARIOS_H

/* --- reconnect.c --- */
void h_second_connection(void);
void h_reconnect_without_memory(void);
void h_idle_without_memory(void);
void h_lost_and_idle(void);
void h_grant_before_use(void);
void h_resized(void);
void h_tested(void);
void h_slow_in_two(void);
void h_doubted_in_two(void);
void h_broken_in_two(void);
void h_lease_of_zero(void);

/* --- late.c --- */
void h_reads_late(void);
void h_reads_late_and_lost(void);
void h_reads_late_and_many(void);

/* --- bounced.c --- */
void h_bounced_calls(void);
void h_bounced_before(void);
void h_bounced_calls_in_parts(void);
void h_bounced_reads(void);
void h_bounced_by_page(void);
void h_bounced_by_page_served(void);
void h_mapping_refused(void);
void h_mapping_never(void);
void h_mapping_refused_served(void);
void h_mapping_never_served(void);
void h_mapping_refused_and_lost(void);
void h_mapping_refused_beside(void);
void h_fetched_unmapped(void);

/* --- regions.c --- */
void h_regions(void);
void h_regions_awaited(void);

/* --- pulled.c --- */
void h_pulled_replies(void);
void h_pulled_into_fragments(void);
void h_pulled_twice(void);
void h_pulled_beside_malformed(void);
void h_pulled_beside_pulled(void);
void h_pulled_before_malformed(void);
void h_malformed_confirms_nothing(void);
void h_pulled_when_full(void);
void h_pulled_beside_calls(void);

/* --- flood.c --- */
void h_flood(void);
void h_flood_lost(void);
void h_flood_of_calls_lost(void);
void h_flood_unaccepted(void);
void h_short_queue(void);
void h_no_queue(void);

/* --- resent.c --- */
void h_encrypted_again(void);
void h_silent_call(void);
void h_steps_fail(void);

/* --- conf.c --- */
void h_single_reads(void);

/* --- exposed.c --- */
void h_exposed(void);
void h_exposed_limit(void);
void h_exposed_until_invalidated(void);
void h_exposed_in_turn(void);
void h_exposed_too_late(void);
void h_exposed_in_part(void);
void h_exposed_in_flood(void);
void h_exposed_in_flood_lost(void);

/* --- refused.c --- */
void h_receives_refused(void);
void h_class_refused(void);
void h_class_refused_mounted(void);
void h_invalidation_refused(void);
void h_swap_refused(void);
void h_tls_refused(void);
void h_pages_unknown(void);

/* --- held.c --- */
void h_callback_replies_held(void);
void h_replies_held(void);
void h_reply_held_and_lost(void);
void h_replies_refused(void);
void h_calls_held(void);
void h_mapping_held(void);
void h_calls_cancelled_unsent(void);

/* --- short.c --- */
void h_short_for_a_moment(void);
void h_short_of_threads(void);
void h_short_of_one(void);
void h_short_of_unused(void);
void h_short_of_kept(void);
void h_kept_bound(void);
void h_kept_returned(void);
void h_kept_closing(void);
void h_short_of_replies(void);
void h_short_given_up(void);
void h_short_for_many(void);

/* --- earlier.c --- */
void h_earlier_callback(void);
void h_earlier_credit(void);
void h_earlier_close(void);

/* --- verifier.c --- */
void h_verifier_grows(void);
void h_verifier_used(void);
void h_verifier_unexpected(void);
void h_verifier_late(void);
void h_verifier_outdated(void);

/* --- timeout.c --- */
void h_reply_refused(void);
void h_reply_refused_and_short(void);
void h_timeout_amid_reply(void);
void h_timeout_amid_loss(void);

/* --- called.c --- */
void h_called_without_credit(void);
void h_called_and_lost(void);
void h_called_while_closing(void);
void h_called_amid_losses(void);

/* --- dead.c --- */
void h_dead_server(void);
void h_dead_requester(void);
void h_orderly(void);
void h_orderly_served(void);
void h_unestablished_closed(void);
void h_unestablished_shut_down(void);

/* --- class.c --- */
void h_class_requested(void);
void h_class_accepted(void);
void h_class_listened(void);

/* --- ports.c --- */
void h_ports_fail(void);
void h_ports_early(void);
void h_ports_absent(void);
void h_ports_routed(void);
void h_ports_infiniband(void);
void h_ports_both(void);
void h_ports_single(void);
void h_ports_silent(void);
void h_ports_rejected(void);
void h_ports_lonely(void);

/* --- recall.c --- */
struct h_rpc;
/* Make and release the transport by which the service calls its requester; both need a thread. */
void h_recall_make(void *unused);
void h_recall_put(void *unused);
void h_recall_reply(const struct h_rpc *rpc);
void h_recall(void);
void h_recall_lost(void);
void h_recall_removed_while_busy(void);
void h_recall_shut_down(void);
void h_recall_unanswered(void);
void h_recall_shut_down_and_short(void);
void h_recall_answered_with_chunks(void);
void h_recall_shortly_answered(void);
void h_recall_grants(void);
void h_recall_too_long(void);
void h_recall_forbidden(void);
void h_recall_forbidden_later(void);

/* --- malformed.c --- */
void h_malformed_replies(void);
void h_malformed_in_two(void);
void h_malformed_answers(void);
void h_malformed_calls(void);
void h_short_callbacks(void);
void h_unserved_callbacks(void);
void h_excessive_callbacks(void);
void h_excessive_calls(void);

/* --- grants.c --- */
void h_grants_limited(void);
void h_grants_zero(void);

/* --- inline.c --- */
void h_inline_too_long(void);
void h_inline_payload(void);
void h_inline_beside_chunk(void);
void h_reply_chunk_unused(void);

/* --- scarce.c --- */
void h_request_without_memory(void);
void h_request_without_regions(void);
void h_connect_without_memory(void);
void h_connect_without_memory_two(void);
void h_fragmented_calls(void);
void h_fragmented_served(void);
void h_fragmented_most(void);
void h_fragmented_last(void);
void h_fragmented_many(void);
void h_fragmented_chunks(void);
void h_regions_few(void);

/* --- moved.c --- */
void h_moved(void);
void h_moved_served(void);
void h_listener_lost(void);
void h_listener_lost_and_ended(void);
void h_removed_at_each_step(void);
void h_removed_amid_each_step(void);

/* --- both.c --- */
void h_both_kinds(void);
void h_both_kinds_two(void);

/* --- unaccepted.c --- */
void h_ready_at_once(void);
void h_accept_fails(void);
void h_removed_without_threads(void);
void h_removed_and_accepted(void);
void h_removed_in_flood(void);
void h_removed_while_busy(void);
void h_backlog(void);

/* --- quiet.c --- */
void h_quiet_replies(void);
void h_quiet_requester(void);
void h_quiet_and_busy(void);
void h_quiet_and_long(void);
void h_quiet_and_many(void);
void h_quiet_and_reused(void);
void h_quiet_and_shared(void);
void h_quiet_and_truncated(void);
void h_quiet_and_uncounted(void);

#endif /* HARNESS_SCENARIOS_H */
