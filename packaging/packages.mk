# Installs xdpcap, and makes packages of it. The Makefile includes this file.

export PREFIX    ?= /usr/local
export EXTCAPDIR ?= /usr/lib/$(shell uname -m)-linux-gnu/wireshark/extcap
export ZSHDIR    ?= $(PREFIX)/share/zsh/site-functions
export GENERATOR := $(CURDIR)/$(BIN)
STAGE            := bin/stage
RELEASE_PACKAGES  := openssh-client
PACKAGES_PACKAGES := mmdebstrap rpm tcpdump iproute2 bash-completion zsh fish tshark apparmor

# All installed files get the date of the newest version: the same sources give the same packages.
export SOURCE_DATE_EPOCH := $(shell date -u +%s -d "$$(sed -n 's/^## [0-9.]* (\(.*\))/\1/p' CHANGELOG.md | head -n 1)")

.PHONY: stage install uninstall packages image test-packages apidiff release

stage: build
	@packaging/stage.sh $(STAGE) $(BIN)

install: stage ## install to PREFIX (default /usr/local); SETCAP=GROUP lets this group capture without root
	@$(SUDO) mkdir -p $(DESTDIR)/
	tar -C $(STAGE) -c --owner=0 --group=0 . | $(SUDO) tar -C $(DESTDIR)/ -x --no-overwrite-dir --keep-directory-symlink
ifneq ($(SETCAP),)
	@$(call need,libcap2-bin)
	@getent group | cut -d: -f1 | grep -qxF '$(SETCAP)' || { echo "SETCAP=$(SETCAP): there is no such group: groupadd --system $(SETCAP)"; exit 1; }
	$(SUDO) chgrp '$(SETCAP)' $(DESTDIR)$(PREFIX)/bin/xdpcap
	$(SUDO) chmod 0750 $(DESTDIR)$(PREFIX)/bin/xdpcap
	$(SUDO) setcap cap_bpf,cap_net_admin,cap_perfmon+ep $(DESTDIR)$(PREFIX)/bin/xdpcap
endif

uninstall: ## remove what make install has placed, given the same PREFIX and DESTDIR
	@[ -x $(BIN) ] || install -D $(DESTDIR)$(PREFIX)/bin/xdpcap $(BIN) 2>/dev/null || $(MAKE) --no-print-directory build
	@packaging/stage.sh $(STAGE) $(BIN)
	@find $(STAGE) ! -type d -printf '%P\0' | (cd $(DESTDIR)/ && xargs -0 ls -d 2>/dev/null) | grep -q . || \
	    echo 'nothing of xdpcap is installed in $(DESTDIR)$(PREFIX): give the PREFIX and DESTDIR of make install'
	find $(STAGE) ! -type d -printf '%P\0' | (cd $(DESTDIR)/ && $(SUDO) xargs -0 rm -f)
	find $(STAGE) -mindepth 1 -depth -type d \( -name xdpcap -o -path '*/xdpcap/*' \) -printf '%P\n' | \
	    (cd $(DESTDIR)/ && $(SUDO) xargs rmdir --ignore-fail-on-non-empty 2>/dev/null || true)

packages: build ## build .deb and .rpm for amd64 and arm64 in dist/
	rm -rf dist bin/package && mkdir -p dist bin/package
	cd packaging && $(GO) build -o ../bin/package/ ./sbom github.com/goreleaser/nfpm/v2/cmd/nfpm
	@$(MAKE) --no-print-directory package-amd64 MULTIARCH=x86_64-linux-gnu
	@$(MAKE) --no-print-directory package-arm64 MULTIARCH=aarch64-linux-gnu

package-%:
	$(call binary,bin/package/$*,$*,bin/package/sbom)
	$(call package,deb,$*,/usr/share/zsh/vendor-completions,/usr/lib/$(MULTIARCH)/wireshark/extcap)
	$(call package,rpm,$*,/usr/share/zsh/site-functions,/usr/lib64/wireshark/extcap)

# binary builds that of an architecture into a directory, with its bill of materials.
binary = GOARCH=$(2) $(GO_BUILD) -o $(1)/xdpcap ./cmd/xdpcap && \
	$(3) $(1)/xdpcap $(VERSION) > $(1)/sbom.json

# package makes one package: its kind, the architecture, and where zsh and Wireshark look there.
package = PREFIX=/usr ZSHDIR=$(3) EXTCAPDIR=$(4) SBOM=bin/package/$(2)/sbom.json \
	packaging/stage.sh bin/package/$(2)/$(1) bin/package/$(2)/xdpcap && \
	cd packaging && VERSION=$(VERSION) ARCH=$(2) STAGE=../bin/package/$(2)/$(1) \
	../bin/package/nfpm package -f nfpm.yaml -p $(1) -t ../dist/

# image has a directory of its own, so that it can be made beside packages.
IMAGE       ?= dist/xdpcap_$(VERSION)_oci.tar
IMAGE_BUILD := bin/image

image: ## build a container image for amd64 and arm64, a file in dist/
	mkdir -p $(IMAGE_BUILD) $(dir $(IMAGE))
	cd packaging && $(GO) build -o ../$(IMAGE_BUILD)/ ./sbom ./image
	@$(MAKE) --no-print-directory image-amd64 image-arm64
	$(IMAGE_BUILD)/image '$(IMAGE)' $(VERSION) amd64=$(IMAGE_BUILD)/amd64/root arm64=$(IMAGE_BUILD)/arm64/root

image-%:
	$(call binary,$(IMAGE_BUILD)/$*,$*,$(IMAGE_BUILD)/sbom)
	packaging/image/root.sh $(IMAGE_BUILD)/$*/root $(IMAGE_BUILD)/$*/xdpcap $(IMAGE_BUILD)/$*/sbom.json

test-packages: packages image ## install them into clean roots, capture there, remove them; build them twice
	@$(call need,$(PACKAGES_PACKAGES))
	cd packaging && $(SUDO) env PATH="$$PATH" CGO_ENABLED=0 CI="$(CI)" VERSION=$(VERSION) $(GO) test $(TEST_FLAGS) -v ./...

apidiff: ## print what changed in the API of the packages since the last tag, or since SINCE=COMMIT
	cd packaging && $(GO) build -o ../bin/ golang.org/x/exp/cmd/apidiff
	packaging/apidiff.sh bin/apidiff $(SINCE)

release: ## test and package the version that HEAD is tagged with, into dist/VERSION, signed with RELEASE_KEY=FILE
	@$(call need,$(RELEASE_PACKAGES))
	packaging/release.sh
