// SPDX-License-Identifier: GPL-2.0-only
/* Call the tc plugin without a tc and without a kernel
 *
 * It takes the place of tc: it loads the plugin, and has the libraries of
 * iproute2 that the plugin calls. It prints a line for each line of stdin:
 *
 *   plugin_harness PLUGIN parse [DEV]	words -> the attributes that they add to
 *					the message, in hex; "nothing" or "refused"
 *   plugin_harness PLUGIN options	TCA_OPTIONS in hex -> text
 *   plugin_harness PLUGIN class_parse [DEV], class_options
 *					both for a class
 *   plugin_harness PLUGIN xstats	TCA_STATS_APP in hex, of the qdisc or of a
 *					class -> text
 *   plugin_harness PLUGIN message	both in hex, each or "-" -> RTM_NEWQDISC as
 *					"tc monitor file" reads it
 *   plugin_harness PLUGIN class_message
 *					the same for a class -> RTM_NEWTCLASS
 *
 * Options before PLUGIN: -j JSON, -d details, -o one line for all text.
 */
#include <dlfcn.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "utils.h"
#include "tc_util.h"
#include "tc_common.h"

#define HARNESS_LINE_MAX	65536
#define HARNESS_WORDS_MAX	64

/* Variables of tc.c that the libraries use */
int show_stats, show_details, show_raw, show_graph, timestamp, batch_mode;
int use_iec, force, json, color, oneline, brief;
bool use_names;
struct rtnl_handle rth;

static struct qdisc_util *plugin;

struct harness_message {
	struct nlmsghdr	n;
	struct tcmsg	t;
	char		buf[HARNESS_LINE_MAX];
};

static void harness_message_init(struct harness_message *msg)
{
	memset(msg, 0, sizeof(*msg));
	msg->n.nlmsg_len = NLMSG_LENGTH(sizeof(msg->t));
	msg->n.nlmsg_type = RTM_NEWQDISC;
	msg->t.tcm_ifindex = 1;
	msg->t.tcm_handle = 0x80010000;
	msg->t.tcm_parent = TC_H_ROOT;
	msg->t.tcm_info = 1;
	addattr_l(&msg->n, sizeof(*msg), TCA_KIND, plugin->id,
		  strlen(plugin->id) + 1);
}

static int harness_hex_read(const char *hex, unsigned char *bytes)
{
	int i, length = strlen(hex) / 2;

	for (i = 0; i < length; i++)
		if (sscanf(hex + 2 * i, "%2hhx", &bytes[i]) != 1)
			errx(2, "not hex: %s", hex);
	return length;
}

static void harness_parse(char *line, const char *dev, const char *mode)
{
	char *words[HARNESS_WORDS_MAX], *word, *save;
	struct harness_message msg;
	unsigned char *byte, *end;
	int n = 0, err;

	for (word = strtok_r(line, " ", &save); word && n < HARNESS_WORDS_MAX;
	     word = strtok_r(NULL, " ", &save))
		words[n++] = word;

	harness_message_init(&msg);
	byte = (unsigned char *)&msg + NLMSG_ALIGN(msg.n.nlmsg_len);
	if (strcmp(mode, "parse"))
		err = plugin->parse_copt(plugin, n, words, &msg.n, dev);
	else
		err = plugin->parse_qopt(plugin, n, words, &msg.n, dev);
	if (err) {
		puts("refused");
		return;
	}
	end = (unsigned char *)&msg + NLMSG_ALIGN(msg.n.nlmsg_len);
	if (byte == end)
		printf("nothing");
	for (; byte < end; byte++)
		printf("%02x", *byte);
	putchar('\n');
}

/* If the last attribute is garbled, iproute2's parser reads a header behind it.
 * There is room for that, as in a netlink buffer.
 */
static struct rtattr *harness_attr_read(const char *hex)
{
	int length = strlen(hex) / 2;
	struct rtattr *rta = calloc(1, RTA_SPACE(length) + sizeof(*rta));

	if (!rta)
		err(2, "calloc");
	harness_hex_read(hex, RTA_DATA(rta));
	rta->rta_len = RTA_LENGTH(length);
	return rta;
}

static void harness_print(const char *hex,
			  int (*print)(struct qdisc_util *qu, FILE *f,
				       struct rtattr *rta))
{
	struct rtattr *rta = harness_attr_read(hex);

	new_json_obj_plain(json);
	open_json_object(NULL);
	print(plugin, stdout, rta);
	close_json_object();
	delete_json_obj_plain();
	if (!json)
		putchar('\n');
	free(rta);
}

/* The qdisc 8001:, or its class 8001:1 */
static void harness_message(char *line, bool is_class)
{
	char *options = strtok(line, " "), *xstats = strtok(NULL, " ");
	unsigned char bytes[HARNESS_LINE_MAX / 2];
	struct harness_message msg;
	struct rtattr *nest;
	int length;

	if (!options || !xstats)
		errx(2, "a message needs options and statistics");
	harness_message_init(&msg);
	if (is_class) {
		msg.n.nlmsg_type = RTM_NEWTCLASS;
		msg.t.tcm_parent = msg.t.tcm_handle;
		msg.t.tcm_handle |= 1;
		msg.t.tcm_info = 0;
	}
	if (strcmp(options, "-")) {
		length = harness_hex_read(options, bytes);
		addattr_l(&msg.n, sizeof(msg), TCA_OPTIONS | NLA_F_NESTED,
			  bytes, length);
	}
	if (strcmp(xstats, "-")) {
		length = harness_hex_read(xstats, bytes);
		nest = addattr_nest(&msg.n, sizeof(msg),
				    TCA_STATS2 | NLA_F_NESTED);
		addattr_l(&msg.n, sizeof(msg), TCA_STATS_APP, bytes, length);
		addattr_nest_end(&msg.n, nest);
	}
	fwrite(&msg, NLMSG_ALIGN(msg.n.nlmsg_len), 1, stdout);
}

static void harness_plugin_load(const char *path)
{
	void *handle = dlopen(path, RTLD_NOW);

	if (!handle)
		errx(2, "%s", dlerror());
	plugin = dlsym(handle, "bpshaper_qdisc_util");
	if (!plugin)
		errx(2, "%s", dlerror());
	/* tc writes here, too: the struct must not be const. */
	plugin->next = NULL;
}

static void harness_line(char *line, const char *mode, const char *dev)
{
	if (strstr(mode, "parse"))
		harness_parse(line, dev, mode);
	else if (!strcmp(mode, "class_options"))
		harness_print(line, (void *)plugin->print_copt);
	else if (!strcmp(mode, "options"))
		harness_print(line, (void *)plugin->print_qopt);
	else if (!strcmp(mode, "xstats"))
		harness_print(line, (void *)plugin->print_xstats);
	else if (!strcmp(mode, "message") || !strcmp(mode, "class_message"))
		harness_message(line, mode[0] == 'c');
	else
		errx(2, "unknown mode %s", mode);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static char line[HARNESS_LINE_MAX];
	int c;

	_SL_ = "\n";
	while ((c = getopt(argc, argv, "jdo")) != -1) {
		json |= c == 'j';
		show_details |= c == 'd';
		if (c == 'o')
			_SL_ = "\\";
	}
	if (argc - optind < 2)
		errx(2, "usage: plugin_harness [-jdo] PLUGIN MODE [DEV]");
	harness_plugin_load(argv[optind]);

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		harness_line(line, argv[optind + 1],
			     argc - optind > 2 ? argv[optind + 2] : "");
	}
	return 0;
}
