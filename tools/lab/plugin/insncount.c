// SPDX-License-Identifier: GPL-2.0
/*
 * This TCG plugin of QEMU counts the guest kernel's instructions by address,
 * in a file that can be read while the guest runs.
 *
 * Each translated block adds its instruction count to its own counter, and one
 * to the number of its runs, by inline operations without a call. The file is
 * an array of (address, count, runs) triples of native 64-bit words; all words
 * after the last used triple are zero. The additions are not atomic, so the
 * guest must have one virtual CPU.
 *
 * Debian does not package QEMU's plugin header, so the prototypes of API
 * version 1 that this file needs are below, up to the line.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_info_t;
struct qemu_plugin_tb;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
typedef void (*tb_trans_cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, tb_trans_cb cb);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb,
					      enum qemu_plugin_op op, void *ptr,
					      uint64_t imm);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;
/* -------------------------------------------------------------------------- */

#define KERNEL_HALF	0xffff800000000000ull
#define ENTRIES		(1u << 20)
#define BUCKETS		(1u << 21)

struct entry {
	uint64_t address;
	uint64_t count;
	uint64_t runs;
};

static struct entry *entries;
static uint32_t used;
static uint32_t buckets[BUCKETS];	/* index + 1 into entries, 0 when free */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The counter of a block, the same however often the block is translated. */
static struct entry *entry_of(uint64_t address)
{
	uint32_t slot = (uint32_t)((address * 0x9e3779b97f4a7c15ull) >> 43);

	for (;; slot = (slot + 1) % BUCKETS) {
		if (buckets[slot] == 0) {
			if (used == ENTRIES)
				return NULL;
			entries[used].address = address;
			buckets[slot] = ++used;
		}
		if (entries[buckets[slot] - 1].address == address)
			return &entries[buckets[slot] - 1];
	}
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	uint64_t address = qemu_plugin_tb_vaddr(tb);
	struct entry *entry;

	(void)id;
	if (address < KERNEL_HALF)
		return;
	pthread_mutex_lock(&lock);
	entry = entry_of(address);
	pthread_mutex_unlock(&lock);
	if (!entry)
		return;
	qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, &entry->count,
						 qemu_plugin_tb_n_insns(tb));
	qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, &entry->runs, 1);
}

/* Argument: out=PATH */
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t *info,
			       int argc, char **argv)
{
	const size_t size = ENTRIES * sizeof(struct entry);
	int fd;

	(void)info;
	if (argc != 1 || strncmp(argv[0], "out=", 4) != 0) {
		fprintf(stderr, "insncount: needs out=PATH\n");
		return 1;
	}
	fd = open(argv[0] + 4, O_RDWR | O_CREAT | O_TRUNC, 0644);
	if (fd < 0 || ftruncate(fd, size) < 0) {
		perror("insncount");
		return 1;
	}
	entries = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (entries == MAP_FAILED) {
		perror("insncount");
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
