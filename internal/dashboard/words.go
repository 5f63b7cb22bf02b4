// Copyright The livesched Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/livesched/livesched/api/v1alpha1"
	"github.com/livesched/livesched/internal/words"
)

// verb returns the verb for a number of things.
func verb[N int | int32 | int64](n N, singular, plural string) string {
	if n == 1 {
		return singular
	}
	return plural
}

// age returns how long ago something was, in at most two units.
func age(of time.Time) string {
	if of.IsZero() {
		return "unknown"
	}
	return span(time.Since(of))
}

// span returns a duration, in at most two units.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return "0 s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d d %d h", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// milliseconds returns a duration that is measured.
func milliseconds(d *metav1.Duration) string {
	switch {
	case d == nil:
		return "–"
	case d.Duration < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	case d.Duration < 10*time.Second:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// rate returns how often something happens in a second.
func rate(perSecond float64) string {
	if perSecond >= 100 {
		return words.Grouped.Sprintf("%.0f", perSecond)
	}
	return fmt.Sprintf("%.1f", perSecond)
}

// headline returns what the verdict means, as a sentence without its full stop. A verdict of a
// newer livesched stands for itself.
func headline(e *v1alpha1.PodExplanation) string {
	text := words.Headline(e)
	if text == "" || strings.HasPrefix(text, "livesched ") {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// resultClass returns the style of a result.
func resultClass(r v1alpha1.DecisionResult) string {
	switch r {
	case v1alpha1.DecisionUnschedulable:
		return "warn"
	case v1alpha1.DecisionFailed, v1alpha1.DecisionBindFailed:
		return "bad"
	}
	return "good"
}
