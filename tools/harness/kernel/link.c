// SPDX-License-Identifier: GPL-2.0
/*
 * Connections of the module's client to the module's server. Messages and the bytes of RDMA Reads
 * and Writes move between the memories of both sides, and R_keys are checked. The driver decides
 * when a work request reaches the peer, when a connection is cut, and when each side is told.
 */
#include "both.h"
#include "wire.h"

bool h_both;
bool h_links_may_break;
struct h_link h_links[H_LINKS];
unsigned int h_link_count;

struct h_link *h_link_new(struct rdma_cm_id *id)
{
	struct h_link *link = &h_links[h_link_count++];

	h_expect(h_link_count <= H_LINKS, "more than %u connections are made", H_LINKS);
	*link = (struct h_link) { .id[H_CLIENT] = id };
	return link;
}

static void connect(struct h_link *link, enum h_side side)
{
	struct h_qp *qp = container_of(link->id[side]->qp, struct h_qp, ib);

	link->qp[side] = qp;
	qp->link = link;
}

void h_link_connect(struct h_link *link)
{
	connect(link, H_CLIENT);
	connect(link, H_SERVER);
	link->made = true;
}

void h_link_forget(struct h_qp *qp)
{
	unsigned int side;

	for (side = 0; qp->link && side < H_SIDES; side++)
		if (qp->link->qp[side] == qp)
			qp->link->qp[side] = NULL;
}

static struct h_qp *peer_of(const struct h_qp *qp)
{
	return qp->link->qp[qp->link->qp[H_CLIENT] == qp ? H_SERVER : H_CLIENT];
}

bool h_link_open(const struct h_link *link)
{
	const struct h_qp *client = link->qp[H_CLIENT], *server = link->qp[H_SERVER];

	return !link->cut && client && server && !client->broken && !server->broken;
}

static void protection_error(struct h_qp *qp)
{
	struct ib_event event = {
		.device = qp->ib.device, .element.qp = &qp->ib, .event = IB_EVENT_QP_ACCESS_ERR,
	};

	h_qp_error(qp);
	if (qp->event_handler)
		qp->event_handler(&event, qp->ib.qp_context);
}

/* Whether the peer has a region with this key. Otherwise the connection breaks, if it may. */
static bool holds(struct h_qp *peer, u32 key)
{
	if (h_mr_open(peer, key))
		return true;
	if (!h_links_may_break)
		h_violation("R_key %#x is used, which the peer has invalidated", key);
	if (!peer->broken)
		protection_error(peer);
	return false;
}

/*
 * In version one each message has a whole call or reply, which is sent once over a connection. In
 * version two a call may have several messages.
 */
static void check_first(struct h_link *link, enum h_side side, const void *message, u32 len)
{
	struct h_cursor in = { message, len };
	u32 xid = h_word(&in), version = h_word(&in), i;

	h_word(&in);
	if (version != 1 || h_word(&in) > 1)
		return;
	for (i = 0; i < link->sent[side]; i++)
		if (link->xids[side][i] == xid)
			h_violation("the message with XID %#x is sent twice over one connection",
				    xid);
	h_expect(i < H_XIDS, "more than %u messages are sent over a connection", H_XIDS);
	link->xids[side][link->sent[side]++] = xid;
}

void h_link_send(struct h_qp *qp, const void *message, u32 len, u32 key)
{
	struct h_qp *peer = peer_of(qp);

	check_first(qp->link, qp->link->qp[H_SERVER] == qp, message, len);
	if (!key || holds(peer, key))
		h_arrive(peer, message, len, key);
}

void h_link_access(struct h_qp *qp, u32 key, u64 addr, void *data, u32 len, bool write)
{
	struct h_qp *peer = peer_of(qp);

	if (holds(peer, key))
		h_peer_access(peer, key, addr, data, len, write);
}

void h_link_step(struct h_link *link, enum h_side side)
{
	struct h_qp *qp = link->qp[side];

	h_qp_step(qp);
	if (peer_of(qp)->broken)
		h_qp_unacknowledged(qp);
}
