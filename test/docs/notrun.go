// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import "regexp"

// exception says why no test runs the commands of pages as they are there.
type exception struct {
	page, command *regexp.Regexp
	reason        string
}

func except(page, command, reason string) exception {
	return exception{regexp.MustCompile(page), regexp.MustCompile(command), reason}
}

const anyPage = ``

// exceptions are sorted: the first that matches counts.
var exceptions = []exception{
	except(anyPage, `<[a-z]|NAME|\$POD|POD=`, "the reader fills in a name"),
	except(anyPage, `^(\w+=\S+ )?make |^\.ci/run`,
		"a target for developers: a test looks whether it exists, .ci/run runs the main ones"),
	except(`compare/|tuning|shadow|operate/rollout`, `^go (test|run)`, "a benchmark: takes minutes, and is run when its figures change"),
	except(anyPage, `^kubectl livesched dashboard`, "serves pages until it is interrupted: the suite of the command tests it"),
	except(`operate/rollout`, `^kubectl `,
		"needs a roll-out under way: the suite of controllers makes such states"),
	except(`tuning|testing`, `go test|^cd `, "a test that .ci/run runs, made longer"),
	except(anyPage, `^(sudo|sed|export|cd) `, "changes the machine, not the cluster"),
	except(`verify-release|release`, `^(git|sha256sum|base64) `,
		"needs a release: make test-release signs and verifies one"),
	except(`quickstart`, `^source |^kubectl `, "uses the cluster of a quickstart"),
	except(`README`, `^source |^kubectl livesched (explain|simulate) `,
		"make test-tutorials gives the tour, which runs it"),
	except(`recipes`, ``, "test/e2e/profiles applies each recipe, and looks where its pods are"),
	except(`helm`, ``, "make test-chart installs, upgrades, rolls back and removes the chart"),
	except(`reference/kubectl`, ``, "shows one state of a cluster: the tests of each command make such states"),
	except(`pod-groups`, `^kubectl get pg `, "shows the status of a group: test/e2e/podgroups tests it"),
	except(`monitor|history|configure`, `^kubectl .*(describe|get)`,
		"shows the printer of kubectl for one state of a cluster"),
	except(`monitor`, `config/prometheus`, "needs the definitions of the Prometheus operator"),
	except(`runbooks/`, `^kubectl (get|logs|auth) `, "looks at the cluster of the reader when the alert fires"),
	except(`headlamp`, `^(mkdir|tar) `, "installs the plugin on the machine of the reader: make test-headlamp tests it"),
	except(`webhook`, ``, "test/e2e/controllers and internal/admission test what the webhook refuses"),
	except(`visibility-api`, `^kubectl `, "needs livesched behind an APIService: the suite of cmd/livesched/app has one"),
	except(`security|monitor|troubleshoot|dashboard|headlamp`, `^kubectl (-n \S+ )?(annotate|label|create|get|logs|port-forward)|^curl `,
		"needs objects or pods of the reader's cluster"),
	except(`migrate`, `\|`, "reads an object of the reader's cluster"),
	except(`replace-kube-scheduler`, `^kubectl (-n \S+ )?(scale|get) `, "needs the pods of livesched in a cluster"),
	except(`tutorials`, `^source |^for |^done|^kubectl (get pods?|run|scale|delete pod|livesched explain) `,
		"make test-tutorials runs it, on the quickstart's cluster"),
	except(`tutorials`, `^kubectl wait .*(node|pod|deployment)/`,
		"make test-tutorials runs it, on the quickstart's cluster"),
}

// NotRun returns why no test runs a command in a block of the page, and nothing if one has to.
func (p Page) NotRun(command string) (reason string) {
	if i := p.exception(command); i >= 0 {
		return exceptions[i].reason
	}
	return ""
}

func (p Page) exception(command string) int {
	for i, e := range exceptions {
		if e.page.MatchString(p.File) && e.command.MatchString(command) {
			return i
		}
	}
	return -1
}
