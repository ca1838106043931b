// SPDX-License-Identifier: GPL-2.0
/*
 * This TCG plugin of QEMU records who has to wait for a lock in the guest's
 * kernel: the stack at each entry into one of the functions that wait.
 *
 * The guest executes nothing for it, so that the locks are held no longer than
 * without it. The file is an array of records of native 64-bit words. The first
 * word of the first record is the number of the other records, which may exceed
 * those for which there is room. A record has the address of the function, the
 * registers rsp and rbp, the number of words of the stack, and these words.
 *
 * Debian does not package QEMU's plugin header, so the prototypes of API
 * version 4 that this file needs are below, up to the line, with GLib's.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_info_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_register;
struct reg_descriptor {
	struct qemu_plugin_register *handle;
	const char *name;
	const char *feature;
};
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_CB_R_REGS };
struct g_array {
	char *data;
	unsigned int len;
};
typedef void (*tb_trans_cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*vcpu_cb)(qemu_plugin_id_t id, unsigned int vcpu);
typedef void (*vcpu_udata_cb)(unsigned int vcpu, void *data);

void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t id, vcpu_cb cb);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, tb_trans_cb cb);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, vcpu_udata_cb cb,
					    enum qemu_plugin_cb_flags flags, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
struct g_array *qemu_plugin_get_registers(void);
int qemu_plugin_read_register(struct qemu_plugin_register *handle, struct g_array *bytes);
bool qemu_plugin_read_memory_vaddr(uint64_t address, struct g_array *bytes, size_t len);
struct g_array *g_byte_array_new(void);
struct g_array *g_byte_array_set_size(struct g_array *bytes, unsigned int len);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 4;
/* -------------------------------------------------------------------------- */

#define WORDS		508
#define RECORDS		(1u << 17)
#define FUNCTIONS	16
#define VCPUS		16
/* The size of a kernel stack, and its alignment. */
#define STACK		0x4000ull

struct record {
	uint64_t function;
	uint64_t rsp;
	uint64_t rbp;
	uint64_t used;
	uint64_t words[WORDS];
};

/* A virtual processor: its registers, and a buffer. */
struct vcpu {
	struct qemu_plugin_register *rsp;
	struct qemu_plugin_register *rbp;
	struct g_array *bytes;
};

static struct record *records;
static uint64_t functions[FUNCTIONS];
static unsigned int known;
static struct vcpu vcpus[VCPUS];

static void started(qemu_plugin_id_t id, unsigned int number)
{
	struct g_array *all = qemu_plugin_get_registers();
	struct reg_descriptor *found = (struct reg_descriptor *)all->data;

	(void)id;
	if (number >= VCPUS)
		return;
	for (unsigned int i = 0; i < all->len; i++) {
		if (strcmp(found[i].name, "rsp") == 0)
			vcpus[number].rsp = found[i].handle;
		if (strcmp(found[i].name, "rbp") == 0)
			vcpus[number].rbp = found[i].handle;
	}
	vcpus[number].bytes = g_byte_array_new();
}

/* Reads a register of the processor that executes; 0 without it. */
static uint64_t read_register(struct qemu_plugin_register *handle, struct g_array *bytes)
{
	uint64_t value = 0;

	g_byte_array_set_size(bytes, 0);
	if (handle && qemu_plugin_read_register(handle, bytes) == sizeof(value))
		memcpy(&value, bytes->data, sizeof(value));
	return value;
}

static void waits(unsigned int number, void *function)
{
	uint64_t place = __atomic_add_fetch(&records[0].function, 1, __ATOMIC_RELAXED);
	struct vcpu *vcpu = &vcpus[number];
	struct record *record;
	size_t len;

	if (place >= RECORDS || number >= VCPUS)
		return;
	record = &records[place];
	record->function = *(uint64_t *)function;
	record->rsp = read_register(vcpu->rsp, vcpu->bytes);
	record->rbp = read_register(vcpu->rbp, vcpu->bytes);
	len = STACK - (record->rsp & (STACK - 1));
	if (len > sizeof(record->words))
		len = sizeof(record->words);
	g_byte_array_set_size(vcpu->bytes, 0);
	if (!qemu_plugin_read_memory_vaddr(record->rsp, vcpu->bytes, len))
		return;
	memcpy(record->words, vcpu->bytes->data, len);
	record->used = len / sizeof(record->words[0]);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb);

	(void)id;
	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		for (unsigned int f = 0; f < known; f++)
			if (qemu_plugin_insn_vaddr(insn) == functions[f])
				qemu_plugin_register_vcpu_insn_exec_cb(insn, waits,
								       QEMU_PLUGIN_CB_R_REGS,
								       &functions[f]);
	}
}

/* Arguments: out=PATH, and at=ADDRESS for each function. */
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t *info,
			       int argc, char **argv)
{
	const size_t size = RECORDS * sizeof(struct record);
	int fd = -1;

	(void)info;
	for (int i = 0; i < argc; i++) {
		if (strncmp(argv[i], "out=", 4) == 0)
			fd = open(argv[i] + 4, O_RDWR | O_CREAT | O_TRUNC, 0644);
		else if (strncmp(argv[i], "at=", 3) == 0 && known < FUNCTIONS)
			functions[known++] = strtoull(argv[i] + 3, NULL, 16);
	}
	if (fd < 0 || !known || ftruncate(fd, size) < 0) {
		fprintf(stderr, "lockcount: needs out=PATH and at=ADDRESS\n");
		return 1;
	}
	records = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (records == MAP_FAILED) {
		perror("lockcount");
		return 1;
	}
	qemu_plugin_register_vcpu_init_cb(id, started);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
