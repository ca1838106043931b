// SPDX-License-Identifier: GPL-2.0
/* Something goes wrong: with the device, or with the peer. */
#include "harness.h"

const struct h_scenario h_fault_scenarios[] = {
	{}
};
