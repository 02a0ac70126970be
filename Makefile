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
NESTED   := $(filter-out $(SUITE),$(patsubst %/go.mod,%,$(wildcard conformance/go.mod conformance/*/go.mod signature/*/go.mod)))
# These are built without the race detector: their dependencies take minutes with it, and nothing of ours runs in parallel there.
NO_RACE  := conformance/clients conformance/registry signature/sigstore
# Programs the tests use, as program:Debian package.
TOOLS    := gcc:gcc script:bsdutils git:git unshare:util-linux setpriv:util-linux mount:mount ip:iproute2 chromium:chromium \
            ssh-keygen:openssh-client python3:python3 node:nodejs perl:perl-base awk:mawk
# On Linux everything can be tested, so a test that would be skipped fails.
NO_SKIP  := $(if $(filter Linux,$(shell uname -s)),METIER_NO_SKIP=1)

# Real skills that some tests read. Without them, make test skips those tests and make test-all fails.
CORPUS   := $(wildcard ../shared/corpus/manifest.jsonl)
SHORT     = $(NO_SKIP) $(if $(CORPUS),,METIER_NO_SHARED=1)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/metier, and bin/pagehand for its browser skill (without cgo, for a faster start)
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
test: need ## run all tests, long ones in a short form; install missing programs
	@$(if $(CORPUS),,echo "../shared/corpus is missing: the tests that read its real skills are skipped.")
	$(SHORT) $(GO) test -short -vet=off -timeout $(TIMEOUT) ./...
	for m in $(NESTED); do echo "== $$m"; (cd "$$m" && $(SHORT) $(GO) test -short -timeout $(TIMEOUT) ./...); done
endif

.PHONY: test-all
test-all: ## run all tests in full, with the race detector
	@$(MAKE) --no-print-directory test METIER_TESTS=all

.PHONY: need
need:
	@tools/need $(if $(filter Linux,$(shell uname -s)),$(TOOLS),gcc:gcc git:git)
	@$(if $(filter Linux,$(shell uname -s)),tools/deno/install)

.PHONY: attacks
attacks: need runsc ## run the sandbox escape tests, as root and as an ordinary user; do not run other tests at the same time
	$(NO_SKIP) GO=$(GO) tools/attacks -p 1 -timeout $(TIMEOUT)

.PHONY: conformance
conformance: ## run the MCP conformance suite, the MCP Inspector, and four coding agents; downloads them from npm once
	cd $(SUITE) && $(GO) vet ./... && $(NO_SKIP) $(GO) test -v -count 1 -timeout $(TIMEOUT) ./...

.PHONY: runsc
runsc: ## build gVisor in the user's cache for its sandbox tests; takes several minutes the first time
	@GO=$(GO) tools/runsc

.PHONY: check
check: fmt-check vet lint cross generated ## run all checks except the tests

.PHONY: fmt
fmt: ## format all Go files
	gofmt -w $$(git ls-files -co --exclude-standard '*.go')

.PHONY: fmt-check
fmt-check:
	@changed=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); \
	if [ -n "$$changed" ]; then echo "gofmt would change, run make fmt:"; echo "$$changed"; exit 1; fi

.PHONY: vet
vet: ## run go vet
	$(GO) vet ./...
	$(GO) vet -tags attacks ./sandbox/...

.PHONY: lint
lint: ## run staticcheck with staticcheck.conf
	$(LINT) ./...

.PHONY: cross
cross: ## run go vet, including tests, for macOS and Windows
	GOOS=darwin $(GO) vet ./...
	GOOS=windows $(GO) vet ./...

.PHONY: generated
generated: ## check that the generated documents are up to date
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
module: ## copy the code under another module path: make module MODULE=github.com/you/metier OUT=../copy (or PATH=…; OUT=. edits in place)
	@GO=$(GO) tools/module '$(MODULE)' '$(OUT)'

.PHONY: fuzz
fuzz: ## run all fuzz targets: parsers of user files for FUZZTIME (60s), the others for a quarter of it
	tools/fuzz $(FUZZTIME)

# Programs only the bench uses.
BENCH_TOOLS := $(if $(filter Linux,$(shell uname -s)),bwrap:bubblewrap setpriv:util-linux)

.PHONY: bench
bench: ## run the benchmarks against baselines and other tools, and write bench/RESULTS.md; needs an idle machine, 4 GB of disk, and several minutes
	@tools/need $(BENCH_TOOLS)
	cd bench && CGO_ENABLED=0 $(GO) run . -o RESULTS.md

.PHONY: bench-launch
bench-launch: ## benchmark only starting programs in a sandbox; METIER_RUNSC=PATH includes gVisor
	@tools/need $(BENCH_TOOLS)
	cd bench && CGO_ENABLED=0 $(GO) run . -tables launch -o RESULTS.md

.PHONY: bench-mcp
bench-mcp: ## benchmark only serving skills over MCP; takes two minutes
	cd bench && CGO_ENABLED=0 $(GO) run . -tables mcp -sizes 1000 -o RESULTS.md

.PHONY: bench-growth
bench-growth: ## benchmark only scaling: turns, parallel runs, names, and memory at a launch; takes several minutes
	cd bench && CGO_ENABLED=0 $(GO) run . -tables growth -o RESULTS.md

.PHONY: bench-check
bench-check: ## check that the benchmarks build and run, on a small tree
	cd bench && $(GO) vet ./... && $(GO) run . -sizes 50 -rounds 1 -pairs 2 -seconds 1

.PHONY: benchmarks
benchmarks: ## run all Go benchmarks once
	$(GO) test -run '^$$' -bench . -benchmem ./...

.PHONY: cover
cover: ## write test coverage to coverage.html
	$(GO) test -coverpkg=./... -coverprofile=coverage.out ./...
	$(GO) tool cover -html=coverage.out -o coverage.html
	$(GO) tool cover -func=coverage.out | tail -1

.PHONY: clean
clean: ## remove build and coverage output
	rm -rf bin dist coverage.out coverage.html
