# The commands of this repository; `make` alone lists them. They need Linux, Rust, Go, a C compiler with its static
# library (glibc-static on Fedora), git and GNU make.
#
# All that runs in development (tests, test bed, demo) is built as one workspace with one profile
# and one set of features, development dependencies included: Cargo would otherwise compile the
# whole dependency tree again for each combination. That is why a test is named where only binaries
# are wanted. RUSTFLAGS is set nowhere, for the same reason: .cargo/config.toml has them.

CARGO ?= cargo
# In CI nothing may change Cargo.lock on the way.
LOCKED := $(if $(CI),--locked)

tests = $(CARGO) test $(LOCKED) --workspace --no-fail-fast

# Where Cargo puts what it builds for development, whatever configures its directory.
debug = $$($(CARGO) metadata --format-version 1 --no-deps $(LOCKED) \
	| sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')/$$(rustc -vV | sed -n 's/^host: //p')/debug

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

.PHONY: build
build: need-cargo ## Build the operator and the test bed for development
	$(CARGO) build $(LOCKED) --workspace --bins --test server

.PHONY: release
release: need-cargo ## Build the operator for use, the one static binary that the image holds
	@hack/static.sh

.PHONY: image
image: need-cargo ## Build the image as an OCI archive in dist/, without a container engine
	@hack/image.sh

.PHONY: dist
dist: need-cargo controlplane gitops-tools ## Gather a release in dist/: binary, image, chart, manifests, CRDs, SBOM, checksums
	@hack/dist.sh

.PHONY: demo
demo: controlplane build ## See a cluster protected when its network breaks, and a control plane recover at once
	@exec "$(debug)/lab" demo

.PHONY: bench
bench: controlplane build ## Measure what the operator costs on a farm of shoots; ARGS="--shoots 50"
	@DWD_BIN="$${DWD_BIN:-$$(hack/static.sh)}" exec "$(debug)/lab" bench $(ARGS)

.PHONY: microbench
microbench: need-cargo ## Time the pure code of a probe, built as release is; ARGS=name picks some
	$(CARGO) bench --locked --package dependency-watchdog --bench hot -- $(ARGS)

.PHONY: failover
failover: controlplane build ## Measure how soon a standby acts on outages that a leader leaves
	@exec "$(debug)/lab" failover

.PHONY: node
node: build ## Run what is shipped on real kubelets, as root on Linux; ARGS=name picks some, PROFILE=dev builds the image fast
	@DWD_STATIC="$(if $(filter dev,$(PROFILE)),$(debug)/dependency-watchdog)" exec "$(debug)/lab" node $(ARGS)

.PHONY: test
test: need-cargo controlplane gitops-tools build-tests check-alerts check-dashboard ## Run every test: unit, property, scripted API server, alerts, end to end
	@hack/test.sh "$(tests) --test e2e" "$(tests) --lib --bins --test it --test server" "$(tests) --doc"

.PHONY: build-tests
build-tests: need-cargo
	@$(CARGO) test $(LOCKED) --workspace --no-run

.PHONY: unit
unit: need-cargo ## Run the tests that need no servers; ARGS=name picks some
	@hack/test.sh "$(tests) --lib --bins --test it -- $(ARGS)"

.PHONY: stress
stress: need-cargo ## Repeat the tests that ARGS=name picks, TIMES=100 times or until one fails
	@for run in $$(seq $(or $(TIMES),100)); do echo "run $$run" && \
		$(CARGO) test $(LOCKED) --workspace --quiet --lib --test it -- $(ARGS) || exit 1; done

.PHONY: nightly
nightly: campaign model flaws fuzz node ## Run what takes long, one after the other: some hours

.PHONY: model
model: need-cargo ## Explore the decisions further than the tests do: minutes and gigabytes; ARGS=name picks some
	CARGO_PROFILE_DEV_OPT_LEVEL=2 $(CARGO) test $(LOCKED) --workspace --test it model:: -- --include-ignored --nocapture --test-threads 2 $(ARGS)

.PHONY: campaign
campaign: need-cargo ## Try every fault at every write, and hundreds of walks, in virtual time; make test has a part
	CAMPAIGN=all CARGO_PROFILE_DEV_OPT_LEVEL=1 $(CARGO) test $(LOCKED) --workspace --test it campaign:: -- --nocapture --include-ignored $(ARGS)

.PHONY: flaws
flaws: need-cargo ## Try the tests: with each deliberate flaw of tests/flaws they must fail; ARGS=name picks some
	@hack/flaws.sh $(ARGS)

.PHONY: e2e
e2e: controlplane gitops-tools build ## Run the scenarios against real servers; ARGS=name picks some
	@hack/test.sh "$(tests) --test e2e -- $(ARGS)"

# The modules whose own properties parse.
parsers = api:: checks:: gardener:: observer::nodes runtime::answers \
	runtime::rights shoot::

.PHONY: fuzz
fuzz: need-cargo ## Try each parser of foreign input for TIME seconds (600) at once, then those beside the code with CASES inputs (5000); ARGS=name picks some
	DWD_FUZZ_SECONDS=$(or $(TIME),600) $(CARGO) test $(LOCKED) --workspace --test it untrusted:: -- \
		--nocapture --test-threads 64 --skip memory $(ARGS)
	PROPTEST_CASES=$(or $(CASES),5000) $(CARGO) test $(LOCKED) --workspace --lib -- $(or $(ARGS),$(parsers))

.PHONY: lint
lint: need-cargo ## Check format, lints, documentation, licences and sources, workflows, and that the book builds
	hack/words.sh
	hack/unless-unchanged.sh .github -- hack/tool.sh actionlint -shellcheck= -pyflakes=
	hack/unless-unchanged.sh docs book.toml hack/book.sh hack/tool.sh -- hack/book.sh
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(LOCKED) --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="$$RUSTDOCFLAGS -D warnings" \
		$(CARGO) doc $(LOCKED) --workspace --no-deps --lib --examples
	hack/unless-unchanged.sh Cargo.lock Cargo.toml */Cargo.toml deny.toml -- \
		hack/cargo-tool.sh deny --locked check licenses bans sources

.PHONY: lines
lines: need-cargo ## Count the lines of each area, and fail if one is above its budget, hack/lines.budget
	@hack/lines.sh

.PHONY: format
format: need-cargo ## Format the code
	$(CARGO) fmt --all

.PHONY: recordings
recordings: need-cargo ## Record the requests of scripted runs anew: tests/snapshots/acts
	INSTA_UPDATE=always $(CARGO) test $(LOCKED) --workspace --no-fail-fast --test it $(or $(ARGS),prober:: health::)

.PHONY: crds
crds: need-cargo ## Generate the files in crds/ from the types
	DWD_WRITE_DOCS=1 $(CARGO) test $(LOCKED) --workspace --test it crds::files_are_up_to_date

.PHONY: check-crds
check-crds: need-cargo ## Fail if the files in crds/ are not those of the types
	$(CARGO) test $(LOCKED) --workspace --test it crds::

.PHONY: chart
chart: crds ## Generate crds/, and the chart's table of values
	DWD_WRITE_DOCS=1 $(CARGO) test $(LOCKED) --workspace --test it chart::every_value_is_described

.PHONY: check-chart
check-chart: ARGS = chart
check-chart: e2e ## Test the chart: what it renders, refuses, installs and leaves

.PHONY: docs
docs: need-cargo ## Generate docs/flags.md, docs/api.md and the tables of docs/metrics.md from the code
	DWD_WRITE_DOCS=1 $(CARGO) test $(LOCKED) --workspace --test it reference::
	DWD_WRITE_DOCS=1 $(CARGO) test $(LOCKED) --workspace --test it every_metric_is_described

.PHONY: book
book: ## Build the documentation as a book: target/book/index.html
	@hack/book.sh

.PHONY: recording
recording: controlplane build ## Record docs/demo.svg, the picture of the demo in the README, anew
	@hack/record-demo.py docs/demo.svg "$(debug)/lab" demo

.PHONY: check-alerts
check-alerts: ## Test the alert rules, by promtool
	@hack/unless-unchanged.sh manifests/monitoring hack/check-alerts.sh -- hack/check-alerts.sh

.PHONY: check-dashboard
check-dashboard: ## Check the queries of the dashboard, by promtool
	@hack/unless-unchanged.sh manifests/monitoring hack/check-dashboard.sh -- hack/check-dashboard.sh

.PHONY: gitops-tools
gitops-tools: ## Build Helm and the like, once, for e2e
	@hack/gitops.sh build

.PHONY: controlplane
controlplane: ## Build etcd, kube-apiserver and the like, once, for e2e and demo
	@e2e/controlplane/build.sh

.PHONY: clean
clean: need-cargo ## Remove what Cargo built; servers and tools stay in ~/.cache
	$(CARGO) clean

# As Gardener's repositories call them.
.PHONY: verify check kind-tests docker-build
verify: lint unit ## Lint, and run the tests that need no servers
check: lint
kind-tests: e2e
docker-build: ## Build the image by docker; `make image` needs none
	docker build --tag dependency-watchdog .

.PHONY: need-cargo
need-cargo:
	@command -v $(CARGO) >/dev/null || { \
		echo "make: $(CARGO) is missing: install Rust, for instance from https://rustup.rs" >&2; \
		exit 1; }
