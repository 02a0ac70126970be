# make help lists what there is. CI calls the same targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO       ?= go
FUZZTIME ?= 60s
TIMEOUT  ?= 40m
LINT     := $(GO) tool -modfile=tools/go.mod staticcheck
# Modules nested in this one have tests of their own. That of the Model Context Protocol wants programs from npm.
SUITE    := conformance/mcp
NESTED   := $(filter-out $(SUITE),$(patsubst %/go.mod,%,$(wildcard conformance/go.mod conformance/*/go.mod)))
# These are built without the race detector: their dependencies take minutes with it, and nothing of ours runs in parallel there.
NO_RACE  := conformance/clients
# Programs the tests use, as program:Debian package.
TOOLS    := gcc:gcc script:bsdutils git:git unshare:util-linux setpriv:util-linux mount:mount ip:iproute2 chromium:chromium \
            python3:python3 node:nodejs perl:perl-base awk:mawk
# On Linux everything can be tested, so a test that would be skipped fails.
NO_SKIP  := $(if $(filter Linux,$(shell uname -s)),METIER_NO_SKIP=1)

# Real skills that some tests read. Without them, make test skips those tests and make test-all fails.
CORPUS   := $(wildcard ../shared/corpus/manifest.jsonl)
SHORT     = $(NO_SKIP) $(if $(CORPUS),,METIER_NO_SHARED=1)

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## bin/metier, and bin/pagehand for its browser skill; without cgo it starts a millisecond sooner, and so does each sandbox
	CGO_ENABLED=0 $(GO) build -o bin/ ./cmd/metier ./cmd/pagehand

# METIER_TESTS=all in the environment turns make test into its long form, which CI types in a fresh clone.
METIER_TESTS ?= short

.PHONY: test
ifeq ($(METIER_TESTS),all)
test: need
	$(NO_SKIP) $(GO) test -vet=off -race -timeout $(TIMEOUT) ./...
	for m in $(NESTED); do echo "== $$m"; race=-race; case " $(NO_RACE) " in *" $$m "*) race=;; esac; \
	  (cd "$$m" && $(NO_SKIP) $(GO) test $$race -timeout $(TIMEOUT) ./...); done
else
test: need ## every test, the long ones in a short form; installs missing programs
	@$(if $(CORPUS),,echo "../shared/corpus is missing: the tests that read its real skills are skipped.")
	$(SHORT) $(GO) test -short -vet=off -timeout $(TIMEOUT) ./...
	for m in $(NESTED); do echo "== $$m"; (cd "$$m" && $(SHORT) $(GO) test -short -timeout $(TIMEOUT) ./...); done
endif

.PHONY: test-all
test-all: ## every test in its long form, with the race detector
	@$(MAKE) --no-print-directory test METIER_TESTS=all

.PHONY: need
need:
	@tools/need $(if $(filter Linux,$(shell uname -s)),$(TOOLS),gcc:gcc git:git)
	@$(if $(filter Linux,$(shell uname -s)),tools/deno/install)

.PHONY: attacks
attacks: need runsc ## every attack on every sandbox, as root and as an ordinary user; no other test runs at the same time
	$(NO_SKIP) GO=$(GO) tools/attacks -p 1 -timeout $(TIMEOUT)

.PHONY: conformance
conformance: ## the Model Context Protocol's own suite and Inspector, and four coding agents; takes them from npm, once
	cd $(SUITE) && $(GO) vet ./... && $(NO_SKIP) $(GO) test -v -count 1 -timeout $(TIMEOUT) ./...

.PHONY: runsc
runsc: ## gVisor for the tests of its sandbox, in the user's cache; builds for some minutes the first time
	@GO=$(GO) tools/runsc

.PHONY: check
check: fmt-check vet lint cross generated ## everything about the code but its tests

.PHONY: fmt
fmt: ## format all Go files
	gofmt -w $$(git ls-files -co --exclude-standard '*.go')

.PHONY: fmt-check
fmt-check:
	@changed=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); \
	if [ -n "$$changed" ]; then echo "gofmt would change, run make fmt:"; echo "$$changed"; exit 1; fi

.PHONY: vet
vet: ## go vet
	$(GO) vet ./...
	$(GO) vet -tags attacks ./sandbox/...

.PHONY: lint
lint: ## staticcheck, as staticcheck.conf says
	$(LINT) ./...

.PHONY: cross
cross: ## vet everything, tests included, for the other systems
	GOOS=darwin $(GO) vet ./...
	GOOS=windows $(GO) vet ./...

.PHONY: generated
generated: ## generated documents are what the code says
	$(GO) test -run 'TestRequirementsAreCurrent' ./internal/repocheck
	$(GO) test -run TestDocumentationIsTheTable ./settings
	$(GO) test -run TestEnforcementPageIsTheTable ./policy
	$(GO) test -run TestErrorsPage_IsTheRegistry ./cli

.PHONY: docs
docs: ## write the generated documents
	$(GO) test -run 'TestRequirementsAreCurrent' ./internal/repocheck -update
	$(GO) test -run TestDocumentationIsTheTable ./settings -update
	$(GO) test -run TestEnforcementPageIsTheTable ./policy -update
	$(GO) test -run TestErrorsPage_IsTheRegistry ./cli -update

# make gives PATH to all that it runs. Where PATH is meant as that of the module, programs are found as before: in the PATH that make
# itself was started with, which Linux tells of a process, and what else has from its own environment.
ifeq ($(origin PATH),command line)
MODULE := $(PATH)
override PATH := $(shell if [ -r /proc/$$PPID/environ ]; then while IFS= read -r -d '' v; do case $$v in (PATH=*) echo "$${v:5}" ;; esac; done </proc/$$PPID/environ; else echo "$$PATH"; fi)
endif

.PHONY: module
module: ## another module path, in a copy: make module MODULE=github.com/you/metier OUT=../copy (or PATH=…; OUT=. is in place)
	@GO=$(GO) tools/module '$(MODULE)' '$(OUT)'

.PHONY: fuzz
fuzz: ## fuzz every target in the source: readers of what people wrote for FUZZTIME (60s), the others for a quarter
	tools/fuzz $(FUZZTIME)

# Programs only the bench uses.
BENCH_TOOLS := $(if $(filter Linux,$(shell uname -s)),bwrap:bubblewrap setpriv:util-linux)

.PHONY: bench
bench: ## beside floors and peers: writes bench/RESULTS.md; wants a quiet machine, 4 GB of disk and some minutes
	@tools/need $(BENCH_TOOLS)
	cd bench && CGO_ENABLED=0 $(GO) run . -o RESULTS.md

.PHONY: bench-launch
bench-launch: ## the part of the bench about programs in a sandbox, alone; METIER_RUNSC=PATH takes gVisor in
	@tools/need $(BENCH_TOOLS)
	cd bench && CGO_ENABLED=0 $(GO) run . -tables launch -o RESULTS.md

.PHONY: bench-mcp
bench-mcp: ## the part of the bench about serving skills over the Model Context Protocol, alone; two minutes
	cd bench && CGO_ENABLED=0 $(GO) run . -tables mcp -sizes 1000 -o RESULTS.md

.PHONY: bench-growth
bench-growth: ## the part of the bench about larger work beside the same, smaller: turns, runs at once, names, memory at a launch; some minutes
	cd bench && CGO_ENABLED=0 $(GO) run . -tables growth -o RESULTS.md

.PHONY: bench-check
bench-check: ## the bench builds and runs, on a small tree
	cd bench && $(GO) vet ./... && $(GO) run . -sizes 50 -rounds 1 -pairs 2 -seconds 1

.PHONY: benchmarks
benchmarks: ## every Go benchmark, once
	$(GO) test -run '^$$' -bench . -benchmem ./...

.PHONY: cover
cover: ## coverage of the tests, in coverage.html
	$(GO) test -coverpkg=./... -coverprofile=coverage.out ./...
	$(GO) tool cover -html=coverage.out -o coverage.html
	$(GO) tool cover -func=coverage.out | tail -1

.PHONY: clean
clean: ## remove what the targets above made
	rm -rf bin dist coverage.out coverage.html
