/* Compiles expressions with libpcap, as tcpdump does. One process serves all tests, because tcpdump
 * takes fifty times as long to start as to compile.
 *
 * stdin has three strings for each expression: the link type, the letters of tcpdump's option (d,
 * dd or ddd, after O for no optimizer), and the expression. stdout has 'p' and the program, or 'e'
 * and libpcap's error. A NUL ends each string. The functions are declared here, because Debian has
 * libpcap's headers in another package.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DLT_NULL = 0, DLT_LOOP = 108 };

struct bpf_program {
	unsigned int len;
	void *insns;
};

void *pcap_open_dead(int linktype, int snaplen);
void *pcap_fopen_offline(FILE *file, char *error);
int pcap_compile(void *p, struct bpf_program *prog, const char *expr, int optimize,
		 unsigned int mask);
char *pcap_geterr(void *p);
void pcap_freecode(struct bpf_program *prog);
void pcap_close(void *p);
void bpf_dump(const struct bpf_program *prog, int option);

/* A handle for a capture file. BSD's loopback needs one, because live libpcap only tests for the
 * number that this system has for IPv6.
 */
static void *open_file(unsigned int linktype)
{
	unsigned int header[] = { 0xa1b2c3d4, 4 << 16 | 2, 0, 0, 262144, linktype };
	char error[256];
	FILE *file = fmemopen(NULL, sizeof(header), "w+");

	fwrite(header, sizeof(header), 1, file);
	rewind(file);
	return pcap_fopen_offline(file, error);
}

int main(void)
{
	char *words[3] = {};
	size_t sizes[3] = {};

	for (;;) {
		for (int i = 0; i < 3; i++)
			if (getdelim(&words[i], &sizes[i], '\0', stdin) <= 0)
				return 0;
		struct bpf_program prog = {};
		int linktype = atoi(words[0]);
		void *p = linktype == DLT_NULL || linktype == DLT_LOOP
				  ? open_file(linktype)
				  : pcap_open_dead(linktype, 262144);
		int optimize = words[1][0] != 'O';
		if (pcap_compile(p, &prog, words[2], optimize, 0) < 0) {
			printf("e%s", pcap_geterr(p));
		} else {
			putchar('p');
			bpf_dump(&prog, strlen(words[1]) - !optimize);
			pcap_freecode(&prog);
		}
		putchar('\0');
		fflush(stdout);
		pcap_close(p);
	}
}
