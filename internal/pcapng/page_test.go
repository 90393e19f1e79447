package pcapng_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/testfile"
)

// docs/pcapng.md has every option that the encoder writes, and every comment of a packet. Five
// options of interfaces are only in files of other programs.
func TestDocumentedOptions(t *testing.T) {
	t.Parallel()
	page := testfile.Read(t, "docs/pcapng.md")
	named := map[string]bool{"ifipv4addr": true, "iftsoffset": true, "iftzone": true, "iftxspeed": true, "ifrxspeed": true}
	for _, name := range regexp.MustCompile(`\b(?:shb|if|epb|isb)_[A-Za-z]+`).FindAllString(page, -1) {
		named[strings.ToLower(strings.ReplaceAll(name, "_", ""))] = true
	}
	options := regexp.MustCompile(`(?m)^\t((?:shb|if|epb|isb)[A-Z]\w+) += \d`).FindAllStringSubmatch(testfile.Read(t, "internal/pcapng/block.go"), -1)
	if len(options) < 20 {
		t.Fatalf("%d options in block.go: %q", len(options), options)
	}
	for _, m := range options {
		if !named[strings.ToLower(m[1])] {
			t.Errorf("docs/pcapng.md does not have the option %s", m[1])
		}
	}
	for _, words := range pcapng.CommentWords {
		if !strings.Contains(page, words) {
			t.Errorf("docs/pcapng.md does not have the comment %q", words)
		}
	}
}
