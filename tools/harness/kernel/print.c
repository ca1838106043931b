// SPDX-License-Identifier: GPL-2.0
/* printk() and the files in debugfs. */
#include <linux/debugfs.h>
#include <linux/kern_levels.h>
#include <linux/printk.h>
#include <linux/seq_file.h>
#include "harness.h"

unsigned int h_warnings;
bool h_quiet;

/* In the kernel crate: formats `ptr` into `buf` up to `end`. Returns the end of the text. */
char *rust_fmt_argument(char *buf, char *end, const void *ptr);

/* Prints a message of Rust. Its format is "%s: %pA": the module's name, and Rust's arguments. */
static void rust_print(char *line, size_t size, const char *format, va_list list)
{
	const char *name = strchr(format, 's') < strstr(format, "%pA") ? va_arg(list, char *) : "";
	char *end = line + strlen(name);

	strcpy(line, name);
	end = strcpy(end, ": ") + 2;
	end = rust_fmt_argument(end, line + size - 1, va_arg(list, void *));
	*end = 0;
}

char * __weak rust_fmt_argument(char *buf, char *end, const void *ptr)
{
	return buf;
}

int _printk(const char *format, ...)
{
	char line[1024];
	va_list list;
	char level = 0;

	if (format[0] == KERN_SOH_ASCII) {
		level = format[1];
		format += 2;
	}
	va_start(list, format);
	if (strstr(format, "%pA"))
		rust_print(line, sizeof(line), format, list);
	else
		u_print(line, sizeof(line), format, list);
	va_end(list);
	if (level >= '0' && level <= '4')
		h_warnings++;
	line[strcspn(line, "\n")] = 0;
	if (!h_quiet)
		u_say("  kernel: %s", line);
	return 0;
}

int ___ratelimit(struct ratelimit_state *rs, const char *func)
{
	return 1;
}

/* --- Files of debugfs --- */

struct file_entry {
	char name[32];
	const struct file_operations *fops;
	void *data;
};

static struct file_entry files[16];
static unsigned int file_count;
static char contents[4096];
static struct seq_file shown;

struct dentry *debugfs_create_dir(const char *name, struct dentry *parent)
{
	return (struct dentry *)contents;
}

struct dentry *debugfs_create_file_full(const char *name, umode_t mode, struct dentry *parent,
					void *data, const void *aux,
					const struct file_operations *fops)
{
	h_expect(file_count < ARRAY_SIZE(files), "debugfs has too many files");
	h_expect(fops->owner, "a file of debugfs does not keep the module");
	files[file_count] = (struct file_entry) { .fops = fops, .data = data };
	strscpy(files[file_count++].name, name, sizeof(files->name));
	return (struct dentry *)contents;
}

void debugfs_remove(struct dentry *dentry)
{
	if (dentry)
		file_count = 0;
}

int single_open(struct file *file, int (*show)(struct seq_file *, void *), void *data)
{
	memset(contents, 0, sizeof(contents));
	shown = (struct seq_file) {
		.buf = contents, .size = sizeof(contents), .private = data,
	};
	return show(&shown, data);
}

static void seq_rust(struct seq_file *m, const void *argument)
{
	char *end = rust_fmt_argument(m->buf + m->count, m->buf + m->size - 1, argument);

	m->count = end - m->buf;
}

void seq_printf(struct seq_file *m, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	if (!strcmp(format, "%pA"))
		seq_rust(m, va_arg(list, void *));
	else
		m->count += u_print(m->buf + m->count, m->size - m->count, format, list);
	va_end(list);
}

int seq_write(struct seq_file *m, const void *data, size_t len)
{
	memcpy(m->buf + m->count, data, len);
	m->count += len;
	return 0;
}

const char *h_statistics(void)
{
	memset(contents, 0, sizeof(contents));
	shown = (struct seq_file) { .buf = contents, .size = sizeof(contents) };
	h_xprt->ops->print_stats(h_xprt, &shown);
	return contents;
}

/* Returns the contents of a file, or NULL if no file has that name. The reader may sleep. */
const char *h_file_read(const char *name)
{
	struct inode inode = {};
	struct file file = {};
	bool ready = h_ready;
	unsigned int i;

	for (i = 0; i < file_count; i++) {
		if (strcmp(files[i].name, name))
			continue;
		inode.i_private = files[i].data;
		file.f_inode = &inode;
		h_ready = false;
		files[i].fops->open(&inode, &file);
		h_ready = ready;
		return contents;
	}
	return NULL;
}
