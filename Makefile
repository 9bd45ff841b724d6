# The one entry for people and CI. Every target installs what it misses and says what it does.
#   make run [PORT=10000] [ADMIN_PORT=9901] [API_PORT=10001]
#   make run-redis [PORT=10000] [ADMIN_PORT=9901] [API_PORT=10001] [REDIS_PORT=6379] [WEBDIS_PORT=7379]
#                  [REDIS=host:port: one that runs] [WEBDIS_URL=http://host:port: one that runs]
#   make bench [QUICK=1] [ROUNDS=10] [SECONDS=2] [KEYS=1000000] [RATE=] [REPORT=bench/report.md]

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup build run run-redis test lint bench fuzz

# Variables of the command line (make run PORT=12000) reach the scripts through the environment.
export PORT ADMIN_PORT API_PORT REDIS_PORT WEBDIS_PORT REDIS WEBDIS_URL QUICK ROUNDS KEYS RATE REPORT

help: ## list the commands
	@echo "Tollgate: cost-weighted rate limits, leases, locks, quotas and a penalty box for Envoy"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## install what is missing: Rust, its wasm32-wasip1 target, Envoy (into .tools), Redis and Webdis, PostgreSQL
	@scripts/setup.sh rust envoy redis postgres

build: ## build the filter: dist/tollgate.wasm
	@scripts/setup.sh rust
	@scripts/build.sh

run: ## start Envoy with the filter and a demo API on port 10000 (PORT=, ADMIN_PORT=)
	@scripts/setup.sh rust envoy
	@scripts/build.sh
	@scripts/run.sh

run-redis: ## the same on Redis, behind Webdis: both are started and stopped with it (REDIS_PORT=, WEBDIS_PORT=)
	@scripts/setup.sh rust envoy $(if $(WEBDIS_URL),,redis)
	@scripts/build.sh
	@scripts/run-redis.sh

test: ## build, then run every test
	@scripts/setup.sh rust envoy redis postgres
	@scripts/build.sh
	@scripts/test.sh

SECONDS ?= 60
fuzz: ## fuzz each target for SECONDS=60 (needs rustup: installs nightly and cargo-fuzz)
	@scripts/setup.sh rust
	@scripts/fuzz.sh $(SECONDS)

lint: ## check formatting and run clippy, native and wasm32
	@scripts/setup.sh rust
	@scripts/lint.sh

# SECONDS under another name, and only from the command line: bash, which runs the scripts, has a variable of its
# own called so, and may hand it on.
bench: ## measure the cost next to no filter and a no-op one: bench/report.md (QUICK=1, ROUNDS=, SECONDS=)
	@scripts/setup.sh rust envoy bench redis
	@scripts/build.sh
	@BENCH_SECONDS='$(if $(filter command,$(firstword $(origin SECONDS))),$(SECONDS))' scripts/bench.sh
