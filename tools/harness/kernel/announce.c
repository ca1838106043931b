// SPDX-License-Identifier: GPL-2.0
/* What the peer announces when a connection is made. */
#include "harness.h"

struct h_answer h_answer = { .send = 4096, .receive = 4096, .remote_invalidation = true };

/*
 * Writes the private data of RFC 8797: magic, version, flags, and two sizes in units of 1024 bytes
 * minus one. If the peer supports version two, the format that rust/wire/cm_private/versions.rs
 * describes follows. Returns the length.
 */
u8 h_private_data(u8 *data)
{
	static const u8 magic[] = { 0xf6, 0xab, 0x0e, 0x18, 1 };
	static const u8 versions[] = { 0xb5, 0x42, 0xa3, 0x2c, 1, 0, 1, 2 };
	const u8 promises = 1;

	if (h_answer.raw) {
		memcpy(data, h_answer.bytes, h_answer.raw);
		return h_answer.raw;
	}
	if (!h_answer.send)
		return 0;
	memcpy(data, magic, sizeof(magic));
	data[5] = h_answer.remote_invalidation;
	data[6] = h_answer.send / 1024 - 1;
	data[7] = h_answer.receive / 1024 - 1;
	if (!h_answer.two)
		return 8;
	memcpy(data + 8, versions, sizeof(versions));
	data[13] = h_answer.bare ? 0 : promises;
	return 8 + sizeof(versions);
}
