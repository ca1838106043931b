// SPDX-License-Identifier: GPL-2.0
/* The settings in which the module's client calls the module's server. */
#include "both.h"

#define FAULTS "DLKE"

const struct h_pairing h_pairings[] = {
	{
		.name = "both_inline", .count = 1, .kinds = { H_INLINE }, .version = 1,
		.faults = 2, .may = FAULTS, .longer = true,
	},
	{
		.name = "both_read", .count = 1, .kinds = { H_READ_4K }, .version = 1,
		.faults = 1, .may = FAULTS,
	},
	{
		.name = "both_write", .count = 1, .kinds = { H_WRITE_4K }, .version = 1,
		.faults = 1, .may = FAULTS,
	},
	{
		.name = "both_long_call", .count = 1, .kinds = { H_LONG_CALL }, .version = 1,
		.faults = 1, .may = FAULTS,
	},
	{
		.name = "both_long_reply", .count = 1, .kinds = { H_READDIR }, .version = 1,
		.faults = 1, .may = FAULTS,
	},
	{
		.name = "both_read_two", .count = 1, .kinds = { H_READ_4K }, .version = 2,
		.faults = 1, .may = FAULTS,
	},
	{
		.name = "both_read_write", .count = 2, .kinds = { H_READ_4K, H_WRITE_4K },
		.version = 1, .procedures = true,
	},
	{
		.name = "both_inlines_lost", .count = 2, .kinds = { H_INLINE, H_INLINE },
		.version = 1, .faults = 1, .may = "D", .longer = true,
	},
	{
		.name = "both_read_write_lost", .count = 2, .kinds = { H_READ_4K, H_WRITE_4K },
		.version = 1, .faults = 1, .may = "D", .longer = true,
	},
	{
		.name = "both_read_write_lost_twice", .count = 2,
		.kinds = { H_READ_4K, H_WRITE_4K }, .version = 1, .faults = 2, .may = "D",
		.longer = true,
	},
	{
		.name = "both_inlines_faults", .count = 2, .kinds = { H_INLINE, H_INLINE },
		.version = 1, .faults = 2, .may = FAULTS, .early = 1, .random = true,
	},
	{
		.name = "both_read_write_faults", .count = 2, .kinds = { H_READ_4K, H_WRITE_4K },
		.version = 1, .faults = 2, .may = FAULTS, .early = 2, .procedures = true,
		.flushes = true, .random = true,
	},
	{
		.name = "both_read_write_two", .count = 2, .kinds = { H_READ_4K, H_WRITE_4K },
		.version = 2, .faults = 2, .may = FAULTS, .early = 2, .procedures = true,
		.flushes = true, .random = true,
	},
	{
		.name = "both_long_faults", .count = 2, .kinds = { H_LONG_CALL, H_READDIR },
		.version = 1, .faults = 2, .may = FAULTS, .early = 2, .procedures = true,
		.random = true,
	},
	{
		.name = "both_long_two", .count = 2, .kinds = { H_LONG_CALL, H_READDIR },
		.version = 2, .faults = 2, .may = FAULTS, .early = 2, .procedures = true,
		.random = true,
	},
	{
		.name = "both_unhurried", .count = 2, .kinds = { H_WRITE_4K, H_INLINE },
		.faults = 3, .may = FAULTS, .early = 2, .procedures = true, .flushes = true,
		.unhurried = true, .random = true,
	},
	{}
};
