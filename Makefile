GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

GOLANGCI_VERSION := v2.15.0
GOLANGCI         := .tools/golangci-lint-$(GOLANGCI_VERSION)

GOVULNCHECK_VERSION := v1.8.0
GOVULNCHECK         := .tools/govulncheck-$(GOVULNCHECK_VERSION)

# Without cgo builds and tests share their cache, and binaries are static.
export CGO_ENABLED ?= 0

FUZZTIME ?= 20s
BENCH    ?= .
CRASHES  ?= 200
SEED     ?= $(shell date +%s)
ROWS     ?=

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show what can be made
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The binary of users: the client's commands, which start in 3 ms, and the whole
# program as data, for those that need the server (localstack/cli/bundle). Arguments:
# the file, flags of go build.
CARRIED := localstack/cli/bundle/program
define bundle
$(GO) build $(2) -o $(CARRIED) ./localstack && $(GO) tool buildid $(CARRIED) > $(CARRIED).id && \
	$(GO) build -tags bundle $(2) -o $(1) ./localstack && rm $(CARRIED) $(CARRIED).id
endef

.PHONY: build
build: ## Build bin/millrace, client and server in one binary
	$(call bundle,bin/millrace,-ldflags '-s -w -X main.version=$(VERSION)')

# Python's packages of the platforms that users have, the binary in them: the
# same bytes for the same commit. The package's version is in one place.
PACKAGE   := functions/sandbox/python
RELEASE   := $(shell sed -n 's/^__version__ = "\(.*\)"$$/\1/p' $(PACKAGE)/millrace/_version.py)
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

.PHONY: wheels
wheels: ## Build Python wheels that carry the binary into bin/wheels (PLATFORMS="linux/amd64 …")
	@rm -rf bin/wheels && mkdir -p bin/wheels
	@set -e; for platform in $(PLATFORMS); do \
		export GOOS=$${platform%/*} GOARCH=$${platform#*/}; \
		$(call bundle,bin/wheels/.binary,-trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(RELEASE)+$(VERSION)'); \
		python3 $(PACKAGE)/packaging/binary.py bin/wheels/.binary $$platform -o bin/wheels; \
	done; rm bin/wheels/.binary

# Without a download: what PyPI adds is the user's network.
.PHONY: first-minute
first-minute: ## Time a new user: from the wheel to a green run (60 s), from a save to the next run's end (2 s)
	@$(MAKE) --no-print-directory wheels PLATFORMS=$$($(GO) env GOOS)/$$($(GO) env GOARCH)
	@python3 -B localstack/proof/firstminute/first_minute.py bin/wheels/*.whl

.PHONY: demo
demo: build ## Show the service at work: start it, upload flows, run them, retry one
	@rm -rf .demo
	@bin/millrace demo --data .demo

.PHONY: test
test: ## Run every test, the end-to-end ones included
	$(GO) test ./...

# infra apart: the CDK's own bridge to Node races with itself when it ends.
.PHONY: test-race
test-race: ## Run every test but infra's under the race detector
	CGO_ENABLED=1 $(GO) test -race $$($(GO) list ./... | grep -v /infra$$)

.PHONY: bench
bench: build ## Measure what has a budget, 4 minutes (ROWS=regexp, BENCHFLAGS="--history 1000,1000000 --idle 5m")
	$(GO) build -tags lambda.norpc -trimpath -ldflags '-s -w' -o bin/bootstrap ./functions/bootstrap
	GOOS=linux GOARCH=arm64 $(GO) build -tags lambda.norpc -trimpath -ldflags '-s -w' -o bin/bootstrap-arm64 ./functions/bootstrap
	$(GO) build -o bin/millrace-bench ./localstack/proof/bench/millrace-bench
	bin/millrace-bench --bootstrap bin/bootstrap --deployed bin/bootstrap-arm64 --rows '$(ROWS)' $(BENCHFLAGS)

.PHONY: mutants
mutants: ## Break each guard of the engine in turn, some test must fail, an hour (GUARDS=regexp)
	nice -n 10 $(GO) run ./localstack/proof/mutants -run '$(GUARDS)'

.PHONY: microbench
microbench: ## Run the Go benchmarks of the parts (BENCH=regexp)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./...

HISTORIES ?= 100000
SEED      ?= $(shell date +%s)

.PHONY: simulate
simulate: ## Simulate random runs under faults: HISTORIES (100000) of them, drawn from SEED
	$(GO) test -c -o bin/simulate ./shared/run/worker
	@set -e; cd shared/run/worker; kinds=$$(../../../bin/simulate -test.list '^TestSimulated'); for kind in $$kinds; do \
		../../../bin/simulate -test.v -test.timeout 0 -test.run "^$$kind\$$" \
			-rapid.seed=$(SEED) -rapid.checks=$$(($(HISTORIES) / $$(echo $$kinds | wc -w) + 1)); \
	done

# The packages that the simulation has to cover, and what it does not, with why.
SIMULATED   := ./shared/run/engine,./shared/run/worker,./shared/run/launch
UNSIMULATED := shared/run/worker/testdata/unsimulated.txt

# Histories are drawn, so that some lines are run by chance: a line that is not
# listed has to be run in one of ROUNDS test runs. An update lists those that are
# not run in each of ROUNDS.
ROUNDS      := 4

.PHONY: simulation-coverage
simulation-coverage: ## Check that the simulation runs each line of the engine, or that a list says why not (UPDATE=-update ROUNDS=12)
	@mkdir -p bin && rm -f bin/simulation.*.cover
	$(GO) test ./shared/run/worker -c -o bin/simulate.cover -coverpkg=$(SIMULATED)
	@for round in $$(seq $(ROUNDS)); do \
		(cd shared/run/worker && ../../../bin/simulate.cover -test.run '^TestSimulat' -test.coverprofile=../../../bin/simulation.$$round.cover) || exit 1; \
		if [ -z "$(UPDATE)" ] && $(GO) run ./localstack/proof/coverage -list $(UNSIMULATED) bin/simulation.*.cover; then exit 0; fi; \
	done; \
	$(GO) run ./localstack/proof/coverage -list $(UNSIMULATED) $(UPDATE) bin/simulation.*.cover

.PHONY: fuzz
fuzz: ## Fuzz every parser for FUZZTIME (20s) each
	@set -e; for file in $$(grep -rl --include='*_test.go' '^func Fuzz' functions shared events localstack); do \
		for name in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' $$file); do \
			$(GO) test ./$$(dirname $$file) -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME); \
		done; \
	done

.PHONY: crash
crash: ## Kill the server at CRASHES (200) random writes and check its store (SEED=n)
	$(GO) test ./localstack/proof/crash -count=1 -v -run TestCrashes -timeout 0 -crashes $(CRASHES) -seed $(SEED)

CUTS ?= 200

.PHONY: powercuts
powercuts: ## Cut the power of a busy store CUTS (200) times in each mode and check what is left
	$(GO) test ./localstack/embedded/store -count=1 -v -timeout 0 -run TestPowerCuts -cuts $(CUTS)

.PHONY: limits
limits: ## Hold the server to its limits: 10,000 tasks, 256 MB outputs, 1,000,000 log lines
	$(GO) test ./localstack/proof/limits -count=1 -v -timeout 0 -full

# A Python with numpy: Debian's /usr/bin/python3 with python3-numpy, or that of a
# virtual environment.
NUMPY_PYTHON ?= python3

.PHONY: numpy
numpy: ## Train with numpy on three tiers of the embedded server (NUMPY_PYTHON=.venv/bin/python)
	@$(NUMPY_PYTHON) -B localstack/examples/training/check.py
	@$(MAKE) --no-print-directory build
	@$(NUMPY_PYTHON) -B localstack/examples/training/check.py bin/millrace

# The same requests each time, unless a seed is given.
ATTACKS     ?= .
ATTACK_SEED  = $(if $(filter file,$(origin SEED)),1,$(SEED))

.PHONY: attack
attack: ## Attack a server beside another workspace that measures, 5 minutes (SEED=n, ATTACKS=regexp)
	$(GO) test ./localstack/proof/attack -count=1 -v -timeout 0 -run 'TestAttacks/$(ATTACKS)' -full -seed $(ATTACK_SEED)

.PHONY: fmt
fmt: ## Format the Go code
	gofmt -w $$(git ls-files -co --exclude-standard '*.go')

.PHONY: vet
vet: ## Run go vet
	$(GO) vet ./...

.PHONY: cross
cross: ## Cross-compile what users run for darwin and windows
	GOOS=darwin GOARCH=arm64 $(GO) build -o /dev/null ./localstack
	GOOS=windows GOARCH=amd64 $(GO) build -o /dev/null ./localstack
	GOOS=darwin GOARCH=arm64 $(GO) build ./localstack/cli/bundle
	GOOS=windows GOARCH=amd64 $(GO) build ./localstack/cli/bundle

.PHONY: lint
lint: $(GOLANGCI) ## Run the linters
	$(GOLANGCI) run ./...

$(GOLANGCI):
	@mkdir -p .tools
	GOBIN=$(CURDIR)/.tools $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv .tools/golangci-lint $@

# The published description, and what reads it: Redocly's linter by its recommended
# rules, and a client of the types that openapi-typescript makes of it.
DESCRIPTION        := functions/catalog/testdata/openapi.json
REDOCLY_VERSION    := 2.77.0
OPENAPI_TS_VERSION := 7.13.0
OPENAPI_FETCH      := 0.17.0
TYPESCRIPT_VERSION := 5.9.3
CONTRACT           := .tools/contract-$(REDOCLY_VERSION)-$(OPENAPI_TS_VERSION)-$(OPENAPI_FETCH)-$(TYPESCRIPT_VERSION)

export REDOCLY_TELEMETRY ?= off
export REDOCLY_SUPPRESS_UPDATE_NOTICE ?= true

.PHONY: contract
contract: $(CONTRACT) ## Lint the description of the API, and compile a TypeScript client of it
	$(CONTRACT)/node_modules/.bin/redocly lint --extends recommended --max-problems 1000 $(DESCRIPTION)
	@mkdir -p $(CONTRACT)/client && cp functions/console/contract/client.ts functions/console/contract/tsconfig.json $(CONTRACT)/client
	$(CONTRACT)/node_modules/.bin/openapi-typescript $(DESCRIPTION) --output $(CONTRACT)/client/api.d.ts
	$(CONTRACT)/node_modules/.bin/tsc --project $(CONTRACT)/client

$(CONTRACT):
	@mkdir -p $@.new
	npm install --silent --no-audit --no-fund --prefix $@.new @redocly/cli@$(REDOCLY_VERSION) openapi-typescript@$(OPENAPI_TS_VERSION) \
		openapi-fetch@$(OPENAPI_FETCH) typescript@$(TYPESCRIPT_VERSION)
	@mv $@.new $@

# The pages by which users sign in, in a real browser: apt-get install chromium, or
# CHROMIUM=path of Chrome.
CHROMIUM ?= $(or $(shell command -v chromium || command -v chromium-browser || command -v google-chrome),chromium)

.PHONY: browser
browser: ## Sign in and approve devices in a real Chromium (apt-get install chromium, or CHROMIUM=path)
	$(GO) run ./localstack/proof/browser -chromium '$(CHROMIUM)'

# What an editor tells the author of a flow: pyright is what most of them use.
PYRIGHT_VERSION := 1.1.414
PYRIGHT         := .tools/pyright-$(PYRIGHT_VERSION)

.PHONY: types
types: $(PYRIGHT) ## Check that type checkers see the mistakes in calls of tasks and flows
	python3 functions/sandbox/python/tests/typing/check.py $(CURDIR)/$(PYRIGHT)/node_modules/.bin/pyright

$(PYRIGHT):
	@mkdir -p $@.new
	npm install --silent --no-audit --no-fund --prefix $@.new pyright@$(PYRIGHT_VERSION)
	@mv $@.new $@

# Known vulnerabilities in what the code calls fail. Where the database cannot be
# had, nothing is known either way, and that is all that is said.
VULNDB       ?= https://vuln.go.dev
VULNPACKAGES ?= ./...

.PHONY: vuln
vuln: $(GOVULNCHECK) ## Check what the code calls for known vulnerabilities, if the database can be reached (VULNDB=url)
	@status=0; out=$$($(GOVULNCHECK) -db $(VULNDB) $(VULNPACKAGES) 2>&1) || status=$$?; \
	if [ $$status -eq 1 ] && unreached=$$(printf '%s' "$$out" | grep '^govulncheck: fetching vulnerabilities:'); then \
		echo "vuln: nothing was checked: $${unreached#govulncheck: }"; exit 0; \
	fi; \
	printf '%s\n' "$$out"; exit $$status

$(GOVULNCHECK):
	@mkdir -p .tools
	GOBIN=$(CURDIR)/.tools $(GO) install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
	@mv .tools/govulncheck $@

.PHONY: generate
generate: ## Write the generated files anew: the tables of operations, the templates, the counts and what they cost, the manual
	$(GO) test ./functions/catalog -count=1 -run 'TestOperationsAreThoseOfTheGoldenFile|TestDescriptionIsThatOfTheGoldenFile|TestReadmeLists' -update
	$(GO) test ./infra -count=1 -run TestTemplatesMatchGoldenFiles -update
	$(GO) test ./localstack/proof/manual -count=1 -run TestPagesAreUpToDate -update
	$(GO) test ./localstack/proof/bench -count=1 -run 'TestCountsAreThoseOfTheGoldenFile|TestReadmeShowsTheBill' -update

.PHONY: verify
verify: ## Check that generated files and go.mod are up to date
	$(GO) test ./functions/catalog -count=1 -run 'TestOperationsAreThoseOfTheGoldenFile|TestDescriptionIsThatOfTheGoldenFile|TestReadmeLists'
	$(GO) test ./localstack/proof/bench -count=1 -run 'TestCountsAreThoseOfTheGoldenFile|TestReadmeShowsTheBill'
	$(GO) test ./infra -count=1 -run TestTemplatesMatchGoldenFiles
	$(GO) test ./localstack/proof/manual -count=1 -run TestPagesAreUpToDate
	$(GO) mod tidy -diff

# A deployment: make synth TENANT=acme REGION=eu-west-1 [STAGE=prod], and more of
# infra/config.go by CONTEXT='-c alarmEmail=ops@example.com'.
TENANT      ?= acme
REGION      ?= eu-west-1
STAGE       ?= prod
CONTEXT     ?=
CDK_VERSION := 2.1148.1
CDK         := .tools/cdk-$(CDK_VERSION)/node_modules/.bin/cdk
CDK_CONTEXT  = -c tenant=$(TENANT) -c region=$(REGION) -c stage=$(STAGE) -c version=$(VERSION) $(FOUND) $(CONTEXT)
# What make preflight has read of the account.
FOUND       ?=

export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION ?= 20

$(CDK):
	@mkdir -p .tools/cdk-$(CDK_VERSION)
	npm install --silent --no-audit --no-fund --prefix .tools/cdk-$(CDK_VERSION) aws-cdk@$(CDK_VERSION)

.PHONY: synth
synth: $(CDK) ## Write the CloudFormation templates of TENANT in REGION (STAGE) to cdk.out
	@rm -rf cdk.out
	$(CDK) synth --quiet $(CDK_CONTEXT)
	@if command -v cfn-lint >/dev/null; then cfn-lint cdk.out/*.template.json; fi
	@$(GO) run ./infra count cdk.out/*.template.json

# What deployed templates are compared with, without an account: a folder of
# data, service and operations.template.json, saved from an earlier cdk.out.
AGAINST ?= infra/testdata
NAME     = millrace-$(TENANT)-$(STAGE)
DATA     = cdk.out/$(NAME)-data

.PHONY: diff
diff: synth ## Show what synth would change against the templates in AGAINST, offline
	@$(GO) run ./infra indexes check $(AGAINST)/data.template.json $(DATA).template.json
	@for part in data service operations; do \
		$(CDK) diff --app cdk.out --exclusively --template $(AGAINST)/$$part.template.json millrace-$(TENANT)-$(STAGE)-$$part || exit 1; \
	done

SINCE ?=

.PHONY: iam
iam: ## Print what each function may do, or what changed in it since a commit (SINCE=commit), from the golden templates
	@older=$$(mktemp); trap 'rm -f '$$older EXIT; \
		if [ -n '$(SINCE)' ]; then git show '$(SINCE)':infra/testdata/service.template.json > $$older || exit 1; fi; \
		$(GO) run ./infra iam infra/testdata/service.template.json $(if $(SINCE),$$older)

.PHONY: preflight
preflight: ## Check quotas, region and sign-in of TENANT's account before anything is made
	@$(GO) run ./infra preflight $(CDK_CONTEXT)

PREFLIGHT ?= on

.PHONY: deploy
deploy: ## Deploy TENANT to REGION: check the account (PREFLIGHT=off), show the changes, ask, deploy
	@found=''; if [ '$(PREFLIGHT)' != off ]; then found=$$($(GO) run ./infra preflight $(CDK_CONTEXT)) || exit 1; fi; \
	$(MAKE) --no-print-directory deploy-checked FOUND="$$found"

# New code queries new indexes, so it follows when they are built. With an identity
# provider of the operator's instead of the user pool the service goes first: the
# data stack cannot remove exports that it still imports.
.PHONY: deploy-checked
deploy-checked: synth
	@$(GO) run ./infra indexes check-table $(NAME)-table $(REGION) $(DATA).template.json
	$(CDK) bootstrap --app cdk.out
	$(CDK) diff --app cdk.out
	@printf 'Deploy %s to %s (%s)? Type the tenant to go on: ' $(TENANT) $(REGION) $(STAGE); read answer; [ "$$answer" = $(TENANT) ]
	@if [ -f cdk.out/$(NAME)-recovery.template.json ]; then $(MAKE) --no-print-directory deploy-recovery; fi
	@if ! grep -q '"$(NAME)-user-pool-id"' $(DATA).template.json && aws cloudformation list-imports --region $(REGION) --export-name $(NAME)-user-pool-id >/dev/null 2>&1; then \
		$(CDK) deploy --app cdk.out --exclusively $(NAME)-service --require-approval never --rollback; fi
	$(CDK) deploy --app cdk.out --exclusively $(NAME)-data --require-approval never --rollback
	@$(GO) run ./infra indexes wait $(NAME)-table $(REGION)
	$(CDK) deploy --app cdk.out --all --require-approval never --rollback

# The stack in the other region replicates the keys of this one.
.PHONY: deploy-recovery
deploy-recovery:
	$(CDK) deploy --app cdk.out --exclusively $(NAME)-keys --require-approval never --rollback
	@key() { aws cloudformation describe-stacks --region $(REGION) --stack-name $(NAME)-keys \
		--query "Stacks[0].Outputs[?OutputKey=='$$1'].OutputValue" --output text; }; \
	key=$$(key KeyArn) && signing=$$(key SigningKeyArn) && \
	$(CDK) deploy --app cdk.out --exclusively $(NAME)-recovery --require-approval never --rollback \
		--parameters "$(NAME)-recovery:PrimaryKeyArn=$$key" --parameters "$(NAME)-recovery:PrimarySigningKeyArn=$$signing"

.PHONY: first-user
first-user: ## Add a user who can sign in to TENANT's deployment: EMAIL=ann@example.com gets a password by mail
	@pool=$$(aws cloudformation describe-stacks --region $(REGION) --stack-name millrace-$(TENANT)-$(STAGE)-data \
		--query "Stacks[0].Outputs[?OutputKey=='UserPoolId'].OutputValue" --output text) && \
	aws cognito-idp admin-create-user --region $(REGION) --user-pool-id "$$pool" --username '$(EMAIL)' \
		--user-attributes Name=email,Value='$(EMAIL)' Name=email_verified,Value=true --desired-delivery-mediums EMAIL \
		--query User.UserStatus --output text

# What is deployed, on this machine. TEMPLATE=infra/testdata takes the templates
# of the golden tests, which need no Node; ON=localstack or ON=emulators overrules
# the choice between them.
TEMPLATE ?= cdk.out
ON       ?= auto

.PHONY: bootstrap
bootstrap: ## Build bin/bootstrap, the program of the deployed functions, for this machine
	$(GO) build -tags lambda.norpc -ldflags '-s -w -X main.version=$(VERSION)' -o bin/bootstrap ./functions/bootstrap

.PHONY: local-up
local-up: build bootstrap $(if $(filter cdk.out,$(TEMPLATE)),synth) ## Run the synthesized templates here: LocalStack, or DynamoDB Local and moto
	bin/millrace cloud up --template $(TEMPLATE) --on $(ON) --allow-loopback --detach

.PHONY: local-down
local-down: ## End what local-up started
	bin/millrace cloud down

.PHONY: e2e-aws
e2e-aws: local-up ## Run the end-to-end tests over the synthesized templates, started and ended for them
	@$(GO) test ./localstack/cloud -count=1 -run TestSuite -v -credentials $(CURDIR)/.local/credentials.json; \
		status=$$?; bin/millrace demo --credentials .local/credentials.json || status=1; \
		bin/millrace cloud down; exit $$status

.PHONY: clean
clean: ## Remove what was built, the demo's data and the tools
	rm -rf bin .demo .local .tools cdk.out
