# xdpcap: `make help` lists the targets.

GO       ?= go
BIN      := bin/xdpcap
IFACE    ?=
FLAGS    ?=
FUZZTIME ?= 10s
KERNEL   ?=
RUN      ?=
SETCAP   ?=
SINCE    ?=
VERSION  := $(shell packaging/version.sh)
SUDO     := $(if $(filter 0,$(shell id -u)),,sudo)

export CGO_ENABLED = 0

# The same sources give the same binary, wherever the tree is.
GO_BUILD = $(GO) build -trimpath -buildvcs=false -ldflags '-s -w -X github.com/xdpcap/xdpcap/internal/cli/frame.version=$(VERSION)'

# Debian's packages, by what needs them. clang is pinned: the committed objects are compared byte for byte.
GENERATE_PACKAGES := clang-19 llvm-19 clang-format-19 libbpf-dev
DISK_PACKAGES     := e2fsprogs xfsprogs btrfs-progs
RACE_PACKAGES     := gcc libc6-dev $(DISK_PACKAGES)
TEST_PACKAGES     := tcpdump tshark iproute2 groff-base nftables iptables
KERNELS_PACKAGES  := qemu-system-x86 kmod xz-utils debian-archive-keyring
ARM64_PACKAGES    := qemu-system-arm
BENCH_PACKAGES    := $(TEST_PACKAGES) xdp-tools netsniff-ng
HOST_PACKAGES     := $(RACE_PACKAGES) jq libcap2-bin netbase xdp-tools
SURROUNDINGS_PACKAGES := prometheus systemd pmacct jq sqlite3 yq libcap2-bin openssh-client runc skopeo umoci \
                     golang-github-containers-common clickhouse-server clickhouse-client curl
KUBERNETES_PACKAGES := etcd-server containerd containernetworking-plugins runc skopeo umoci busybox-static tshark

# How bpf2go compiles each program that a //go:generate line names. bpf/include/build.h looks for MAKE_GENERATE.
export BPF2GO_CC     := clang-19
export BPF2GO_STRIP  := llvm-strip-19
export BPF2GO_CFLAGS := -O2 -mcpu=v3 -Wall -Wextra -Wno-unused-parameter -Werror -DMAKE_GENERATE -I/usr/include/x86_64-linux-gnu

GENERATED = $(shell git ls-files '*_bpfel.go' '*_bpfel.o')
C_FILES  := $(wildcard bpf/*.c bpf/include/*.h testdata/*.c filter/testdata/*.c)
GO_FILES  = $(filter-out $(GENERATED),$(shell git ls-files '*.go'))

.PHONY: build run picture check test test-host test-surroundings test-browser test-race test-kernels test-kernels-quick test-kubernetes lint generate bench fuzz vulncheck man clean help

build: ## build bin/xdpcap, one static binary
	$(GO_BUILD) -o $(BIN) ./cmd/xdpcap

run: build ## capture: on IFACE=eth0, or on a demo network of its own; FLAGS='-c 10' are added
ifeq ($(IFACE),)
	@$(call need,$(TEST_PACKAGES))
	$(GO) build -o bin/demo ./internal/tools/demo
	$(SUDO) bin/demo $(BIN) out.pcapng $(FLAGS)
else
	$(SUDO) $(BIN) -i $(IFACE) -w out.pcapng $(FLAGS)
endif

picture: build ## draw docs/terminal.svg, which README.md shows: what a capture and top show on a terminal
	@$(call need,tmux)
	$(GO) build -o bin/demo ./internal/tools/demo
	$(SUDO) bin/demo $(BIN) docs/terminal.svg

# Tests run beside each other, because most of their time they wait. `make check` and `make lint` vet.
# Go ends the tests of a package after 10 minutes: those of one that hangs.
TEST_FLAGS = -count=1 -parallel 8 -vet=off

# SYSTEM has the packages of the tests that start xdpcap. Those of SURROUNDINGS also start what users
# put beside it, and have a target of their own.
SYSTEM       := ./internal/systest
SURROUNDINGS := $(SYSTEM)/surroundings

# run_tests runs tests as root, with the binary (1) and the variable (2). URGENT lets them go before what else the computer
# does, where root may do that: or they would take twice as long beside two busy processes.
run_tests = $(SUDO) $(URGENT) env PATH="$$PATH" XDPCAP="$(CURDIR)/$(1)" CGO_ENABLED=0 CI="$(CI)" $(2) $(GO) test $(TEST_FLAGS)
URGENT    = nice -n -5

# CHECKED are the packages that have tests which need neither root nor tools. `make lint` vets all.
CHECKED = $(shell $(GO) list ./... | grep -vE '/internal/(systest|tc|support|tools/kernels)')

# XDPCAP_CHECK leaves out what needs root or a tool. Results are kept: only what has changed runs again.
check: ## gofmt, vet, and the tests that need neither root nor tools: what to run after each change
	@$(call formatted)
	$(GO) vet $(CHECKED)
	XDPCAP_CHECK=1 $(GO) test -short -vet=off $(CHECKED)

test: ## run the tests of this machine, and a choice of them in two kernels, as root; installs what they need
	@$(call need,$(TEST_PACKAGES) $(KERNELS_PACKAGES) $(HOST_PACKAGES))
	@$(SUDO) true # asks for the password before two commands need it at once
	@$(MAKE) --no-print-directory -j2 test-host test-kernels-quick

test-host: build
	$(call run_tests,$(BIN)) $$($(GO) list ./... | grep -v /surroundings)

test-surroundings: build ## test it with what users put beside it: collectors, ClickHouse, Prometheus, systemd, runc, make install
	@$(call need,$(TEST_PACKAGES) $(SURROUNDINGS_PACKAGES))
	$(call run_tests,$(BIN)) $(SURROUNDINGS)

# No other target needs a browser, because it is large.
test-browser: build ## look at a page of `read --report` in headless Chromium, if it is installed: pictures in bin/pictures
ifeq ($(shell command -v chromium),)
	@echo 'test-browser is not run: there is no chromium: apt-get install chromium'
else
	@mkdir -p bin/pictures
	$(call run_tests,$(BIN),XDPCAP_PICTURES="$(CURDIR)/bin/pictures") -tags browser -run InBrowser $(SYSTEM)/read
endif

# The packages that start a goroutine, in code or tests: those that can have a data race. Omitted are
# tools and the system tests (see below).
RACING = $(shell grep -lE '^[[:space:]]+go [a-zA-Z_.]+[[:punct:]]|\.Go.func' $(GO_FILES) | grep -v '^internal/tools/\|^internal/systest/\|^internal/drops/lab/\|^contrib/' | xargs -n1 dirname | sort -u | sed 's,^,./,')

# The system tests run the binary that XDPCAP names. Here it is one with the race detector, for the
# captures of TestChaos and the servers of TestServe. It needs more memory than the 40 MiB that
# TestChaos/little_memory allows. By default every such process sleeps for a second before it exits, to
# find more races: GORACE turns that off.
test-race: build ## run the tests of the packages that have goroutines with the race detector, as root: it takes gcc
	@$(call need,$(RACE_PACKAGES) $(TEST_PACKAGES))
	CGO_ENABLED=1 $(GO) build -race -o bin/xdpcap-race ./cmd/xdpcap
	$(SUDO) $(URGENT) env PATH="$$PATH" CGO_ENABLED=1 CI="$(CI)" $(GO) test -race -short $(TEST_FLAGS) $(RACING)
	$(call run_tests,bin/xdpcap-race,GORACE=atexit_sleep_ms=0) -short -run 'TestChaos|TestServe|TestSend$$' -skip TestChaos/little_memory $(SYSTEM)/chaos $(SYSTEM)/streams

test-kernels: ## run the tests that can differ by kernel in Debian's 6.1 and 6.12 under qemu, or in KERNEL=arm64; RUN=TestName narrows it
	@$(call need,$(KERNELS_PACKAGES) $(if $(filter arm64,$(KERNEL)),$(ARM64_PACKAGES)))
	$(GO) build -o bin/kernels ./internal/tools/kernels
	$(URGENT) bin/kernels $(QUICK) -run '$(RUN)' $(KERNEL)

# Those of the tests that `make test` runs.
test-kernels-quick: QUICK := -quick
test-kernels-quick: test-kernels

# The programs of Kubernetes that internal/tools/kubernetes/go.mod pins are built once.
KUBERNETES := bin/kubernetes/built
$(KUBERNETES): internal/tools/kubernetes/go.mod
	cd $(<D) && $(GO) build -trimpath -buildvcs=false -ldflags '-s -w' -o $(CURDIR)/$(@D)/ tool
	touch $@

test-kubernetes: build $(KUBERNETES) ## test image, manifests and docs/kubernetes.md in a Kubernetes of its own, as root: the first time it builds that for ten minutes
	@$(call need,$(KUBERNETES_PACKAGES))
	$(SUDO) env PATH="$$PATH" XDPCAP="$(CURDIR)/$(BIN)" CGO_ENABLED=0 CI="$(CI)" $(GO) test -tags kubernetes -count=1 -timeout 20m -v -run '^TestKubernetes$$' $(SYSTEM)/surroundings

lint: ## gofmt, vet, staticcheck, clang-format, and generated code equal to the committed
	@$(call need,$(GENERATE_PACKAGES))
	@$(call formatted)
	$(GO) vet -tags kubernetes ./...
	$(GO) tool staticcheck -tags kubernetes ./...
	@$(call forbid,./internal/cli/...,github.com/cilium)
	@$(call forbid,./internal/pcapng,\.)
	@$(call forbid-deps,./filter,github.com/cilium)
	@$(call forbid-deps,./capture/packet ./internal/capfile,github.com/cilium|netlink)
	@$(call forbid,./capture/... ./filter/... ./internal/xdp ./internal/tc ./internal/support ./internal/attach,/meter$$|/cmd/|/cli)
	@$(call forbid,./internal/meter ./filter/... ./internal/xdp ./internal/tc ./internal/support ./internal/attach,/capture$$|/cmd/|/cli)
	@$(call forbid,./filter/... ./internal/xdp ./internal/tc,/support$$)
	@$(call forbid,./internal/support,/attach$$)
	@$(call narrow,    ,^ *//( |$$),$(GO_FILES))
	@$(call narrow,        ,^ *(/?\*|//),$(C_FILES))
	@$(call narrow,    ,^[^ |],$(wildcard *.md docs/*.md docs/*/*.md))
	clang-format-19 --dry-run --Werror $(C_FILES)
	@sums="$$(sha256sum $(GENERATED))"; $(MAKE) --no-print-directory generate && \
	[ "$$sums" = "$$(sha256sum $(GENERATED))" ] || \
	{ echo "the committed objects are not what bpf/ compiles to: look at git diff and commit them"; exit 1; }

generate: ## compile bpf/*.c into the committed Go and object files
	@$(call need,$(GENERATE_PACKAGES))
	$(GO) generate ./...

bench: build ## measure against other tools and no capture, in 20 minutes, or with FLAGS=-quick in a few: tables, and the figures in README.md and docs/
	@$(call need,$(BENCH_PACKAGES))
	$(GO) build -o bin/bench ./internal/tools/bench
	$(SUDO) bin/bench $(FLAGS) -o docs/speed.txt $(BIN)
	$(GO) tool benchstat docs/speed.txt
	bin/bench -from docs/speed.txt -svg docs/speed.svg README.md docs/speed.md docs/sizing.md

# With FUZZTIME as a number of inputs (20000x), each target takes a few seconds. If fuzzing ends by time,
# Go 1.26 sometimes reports the end as a failure: "context deadline exceeded". An input that covers new
# code is minimized with few tries only, because the default takes up to a minute for each.
fuzz: ## run every fuzz target for FUZZTIME, from the inputs in testdata/fuzz
	@for f in $$(grep -l '^func Fuzz' $(GO_FILES)); do for t in $$(grep -o '^func Fuzz[A-Za-z]*' $$f | cut -c6-); do \
	    $(GO) test -run '^$$' -fuzz "^$$t$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x ./$$(dirname $$f) || exit 1; done; done

vulncheck: ## look for known vulnerabilities in what the code calls; it asks Go's database on the network
	$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...

man: build ## write the manual pages to bin/man
	$(BIN) man --dir bin/man

include packaging/packages.mk

clean: ## remove what was built
	rm -rf bin dist out.pcapng

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1\t/' | awk -F'\t' '{printf "  make %-12s %s\n", $$1, $$2}'

# forbid keeps DESIGN.md's section Imports: which package must not import which.
define forbid
found="$$($(GO) list -f '{{join .Imports "\n"}}' $(1) | grep -E '$(2)')"; \
[ -z "$$found" ] || { echo "$(1) must not import $$found: DESIGN.md, Imports"; exit 1; }
endef

# forbid-deps checks everything that a package is linked with; forbid checks its own imports only.
define forbid-deps
found="$$($(GO) list -deps $(1) | grep -E '$(2)')"; \
[ -z "$$found" ] || { echo "$(1) must not depend on $$found: DESIGN.md, Imports"; exit 1; }
endef

# narrow limits comments and text to 100 columns: lines that match (2) in the files (3); a tab counts as the spaces in (1).
define narrow
awk '{ line = $$0; gsub(/\t/, "$(1)", line) } line ~ "$(2)" && length(line) > 100 \
    { print FILENAME ":" FNR ": " length(line) " columns, 100 at the most"; found = 1 } END { exit found }' $(3)
endef

define formatted
out=$$(gofmt -l .); [ -z "$$out" ] || { echo "gofmt would change: $$out"; exit 1; }
endef

# need installs the Debian packages that are missing. It waits up to ten minutes for another program
# that installs packages.
define need
missing=""; for p in $(1); do dpkg-query -W -f '$${Status}' $$p 2>/dev/null | grep -q ' installed' || missing="$$missing $$p"; done; \
if [ -n "$$missing" ]; then echo "installing:$$missing"; \
    $(SUDO) apt-get -qq update && $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=600 install -y --no-install-recommends $$missing >/dev/null; fi
endef
