SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION ?= 0.1.0
ARCH    ?= $(shell go env GOARCH)

# What is downloaded or made once is kept where os.UserCacheDir() points; its
# name holds a hash of the recipe, so a changed recipe makes it anew.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/codex-proxy
hash   = $(shell cat $(1) | sha256sum | cut -c1-12)
TOOLS := $(CACHE)/tools-$(call hash,test/tools/go.mod)
CODEX := $(CACHE)/codex-$(call hash,test/codex/package-lock.json)

BIN := build/codex-proxy
DEB := build/codex-proxy_$(VERSION)_$(ARCH).deb
SRC := $(shell find cmd notify units probes proxy -name '*.go' -not -name '*_test.go' 2>/dev/null) go.mod go.sum

# Debian's packages, installed if a command or file is missing: WHAT:PACKAGE.
RUN_NEEDS  := systemctl:systemd dbus-daemon:dbus pkaction:polkitd dpkg-deb:dpkg
TEST_NEEDS := $(RUN_NEEDS) gcc:gcc /usr/include/pthread.h:libc6-dev npm:npm mmdebstrap:mmdebstrap

INTEGRATION = $(TOOLS)/gotestsum --format testname -- -count=1 -timeout 12m ./test/integration
WAITING     = ^(TestCrashLoop|TestWatchdog.*|TestRestartOf(TheOnlyWorker|LongStreams|AHungWorker)|TestRestartBesideAHungProxy|TestChaos)$$

export CODEX_PROXY_TEST_CODEX := $(CODEX)/codex
export CODEX_PROXY_TEST_DEB   := $(abspath $(DEB))

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 10

.PHONY: build
build: $(BIN) ## build the program into build/

$(BIN): $(SRC)
	CGO_ENABLED=0 GOARCH=$(ARCH) go build -trimpath -buildmode=pie -ldflags '-s -w -X main.version=$(VERSION)' -o $@ ./cmd/codex-proxy

.PHONY: deb
deb: $(DEB) ## build the Debian package into build/

$(DEB): $(BIN) $(shell find packaging deb -type f 2>/dev/null) LICENSE | $(TOOLS)/nfpm
	VERSION=$(VERSION) ARCH=$(ARCH) $(TOOLS)/nfpm package --config packaging/nfpm.yaml --packager deb --target $@

.PHONY: run
run: ## try it: a throwaway systemd over this machine's files, until Ctrl-C
	@$(MAKE) --no-print-directory needs NEEDS="$(RUN_NEEDS)"
	@if [ -n "$(MODEL_ENDPOINT)" ] && [ -z "$$CODEX" ] && ! command -v codex >/dev/null; then \
		$(MAKE) --no-print-directory needs NEEDS=npm:npm; $(MAKE) --no-print-directory $(CODEX)/codex; fi
	@$(MAKE) --no-print-directory $(DEB)
	@CGO_ENABLED=0 go build -o build/try ./test/try
	@MODEL_ENDPOINT="$(MODEL_ENDPOINT)" \
		CODEX="$${CODEX:-$$([ -n "$(MODEL_ENDPOINT)" ] && ! command -v codex >/dev/null && echo $(CODEX)/codex)}" \
		exec build/try -deb $(abspath $(DEB))

.PHONY: test
test: ## run every check: lint, unit tests, then the real thing in booted machines
	@$(MAKE) --no-print-directory needs NEEDS="$(TEST_NEEDS)"
	@$(MAKE) --no-print-directory $(DEB) $(CODEX)/codex $(TOOLS)/gotestsum $(TOOLS)/golangci-lint
	@# What mostly waits for systemd's clock runs beside lint and unit tests; what
	@# measures time runs alone, after them.
	@mkdir -p build
	@$(INTEGRATION) -parallel 4 -run '$(WAITING)' >build/waiting.log 2>&1 & waiting=$$!; \
	status=0; $(MAKE) --no-print-directory lint && $(TOOLS)/gotestsum --format pkgname-and-test-fails -- -race $$(go list ./... | grep -v /test/integration) || status=$$?; \
	wait $$waiting || status=$$?; cat build/waiting.log; exit $$status
	$(INTEGRATION) -skip '$(WAITING)'

.PHONY: chaos
chaos: ## all that may befall it, under load: DURATION=10m, SEED=N for the same order again
	@$(MAKE) --no-print-directory needs NEEDS="$(TEST_NEEDS)"
	@$(MAKE) --no-print-directory $(DEB) $(CODEX)/codex
	CODEX_PROXY_TEST_REQUIRE=1 CODEX_PROXY_TEST_CHAOS=$(or $(DURATION),10m) CODEX_PROXY_TEST_CHAOS_SEED=$(SEED) go test -count=1 -timeout 0 -v ./test/integration -run '^TestChaos$$'

.PHONY: lint
lint: | $(TOOLS)/golangci-lint ## check formatting, vet and the rules of the house
	$(TOOLS)/golangci-lint run

.PHONY: fuzz
fuzz: ## fuzz what clients and workers send, FUZZTIME each (30s)
	go test ./proxy/openai -run '^$$' -fuzz FuzzDecodeChat -fuzztime $(or $(FUZZTIME),30s)
	go test ./proxy/appserver -run '^$$' -fuzz FuzzIncoming -fuzztime $(or $(FUZZTIME),30s)
	go test ./proxy/appserver -run '^$$' -fuzz FuzzTranscript -fuzztime $(or $(FUZZTIME),30s)

.PHONY: clean
clean: ## remove build/ (the cache stays: make clean-cache)
	rm -rf build

.PHONY: clean-cache
clean-cache: ## remove what was downloaded or made once
	rm -rf $(CACHE)

.PHONY: needs
needs:
	@missing=; for n in $(NEEDS); do command -v "$${n%%:*}" >/dev/null || test -e "$${n%%:*}" || missing+=" $${n##*:}"; done; \
	if [ -n "$$missing" ]; then \
		echo "installing$$missing"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	fi

# The tools, at the versions of test/tools/go.mod; each is built when it is needed.
$(TOOLS)/nfpm:          TOOL := github.com/goreleaser/nfpm/v2/cmd/nfpm
$(TOOLS)/golangci-lint: TOOL := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(TOOLS)/gotestsum:     TOOL := gotest.tools/gotestsum
$(TOOLS)/%:
	@echo "building $(@F) (once)"
	@CGO_ENABLED=0 go build -C test/tools -o $@ $(TOOL)

# The codex of test/codex/package-lock.json: its native binary, by a link.
$(CODEX)/codex:
	@mkdir -p $(CODEX)
	cp test/codex/package.json test/codex/package-lock.json $(CODEX)/
	npm ci --prefix $(CODEX) --no-audit --no-fund --loglevel=error
	ln -sf $(CODEX)/node_modules/@openai/codex-linux-*/vendor/*/bin/codex $@
