// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/scheduler/cache"
)

// hiddenNode replaces the name of a node in a message.
const hiddenNode = "(a node)"

// nodeWord matches what may be the name of a node.
var nodeWord = regexp.MustCompile(`[\w][\w.-]*`)

// domain matches the domain of a topology in the message about a group. Each node may be a
// domain of its own.
var domain = regexp.MustCompile(`( fit in )[^;]+`)

// nodeNames are the names of nodes, and the values of their host name labels, which are erased in
// messages for those who may not list nodes.
type nodeNames sets.Set[string]

// addAll adds the nodes of a snapshot.
func (n nodeNames) addAll(snapshot *cache.Snapshot) {
	for _, node := range nodesOf(snapshot) {
		n[node.Node().Name] = sets.Empty{}
		if host := node.Node().Labels[corev1.LabelHostname]; host != "" {
			n[host] = sets.Empty{}
		}
	}
}

// erase replaces the names in a message.
func (n nodeNames) erase(message string) string {
	return nodeWord.ReplaceAllStringFunc(domain.ReplaceAllString(message, "${1}one domain"), func(word string) string {
		name := strings.TrimRight(word, ".-_") // the end of a sentence is not part of the name
		if _, hidden := n[name]; !hidden {
			return word
		}
		return hiddenNode + word[len(name):]
	})
}

// eraseIn replaces the names in the messages about pods without a node.
func (n nodeNames) eraseIn(outcome *v1alpha1.SimulationOutcome) {
	for i := range outcome.UnplacedPods {
		outcome.UnplacedPods[i].Message = n.erase(outcome.UnplacedPods[i].Message)
	}
}
