// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// told is a reporter, and what it has told so far.
type told struct {
	*reporter
	events  *record.FakeRecorder
	patches []string
	err     error
}

func toldNew() *told {
	t := &told{events: record.NewFakeRecorder(10)}
	t.reporter = &reporter{events: t.events, told: map[types.UID]string{},
		wake: make(chan struct{}, 1)}
	t.patch = func(_ context.Context, _ *pod, patch []byte) error {
		t.patches = append(t.patches, string(patch))
		return t.err
	}
	return t
}

// says is what comes of a refusal: the reason of each Event.
func (t *told) says(p *pod, why *refusal) []string {
	var reasons []string

	t.tellAll(context.Background(), []*pod{p}, map[types.UID]*refusal{p.uid: why})
	for len(t.events.Events) != 0 {
		reasons = append(reasons, strings.Fields(<-t.events.Events)[1])
	}
	return reasons
}

func TestOneEventForAChange(t *testing.T) {
	p := &pod{uid: "1", namespace: "a", name: "b"}
	r := toldNew()
	for i, step := range []struct {
		why  *refusal
		want []string
	}{
		{nil, nil},
		{refuse(badAnnotation, "x", "1"), []string{badAnnotation}},
		{refuse(badAnnotation, "x", "1"), nil},
		{refuse(badAnnotation, "x", "2"), nil}, // the sums of others
		{refuse(badAnnotation, "y", "2"), []string{badAnnotation}},
		{refuse(notAllowed, "y", "2"), []string{notAllowed}},
		{nil, []string{"Applied"}},
		{nil, nil},
	} {
		if got := r.says(p, step.why); !slices.Equal(got, step.want) {
			t.Errorf("step %d: %q, expected %q", i, got, step.want)
		}
	}
	if len(r.patches) != 4 || !strings.Contains(r.patches[0], `"message":"x: 1"`) ||
		!strings.Contains(r.patches[0], `"uid":"1"`) ||
		!strings.Contains(r.patches[3], `"status":"True"`) {
		t.Errorf("patches: %q", r.patches)
	}
}

// An agent that has been started again reads in the condition what it has told.
func TestNothingIsToldAgain(t *testing.T) {
	p := &pod{uid: "1", condition: &corev1.PodCondition{Type: conditionType,
		Status: corev1.ConditionFalse, Reason: notAllowed, Message: "x: 1"}}
	if got := toldNew().says(p, refuse(notAllowed, "x", "2")); got != nil {
		t.Errorf("again: %q", got)
	}
	if got := toldNew().says(p, refuse(notAllowed, "y", "2")); len(got) != 1 {
		t.Errorf("another one: %q", got)
	}
	if got := toldNew().says(p, nil); !slices.Equal(got, []string{"Applied"}) {
		t.Errorf("none: %q", got)
	}
}

// What the API has not heard is told later, what it refuses is not.
func TestAway(t *testing.T) {
	p, why := &pod{uid: "1"}, refuse(notAllowed, "x", "1")
	r := toldNew()
	r.err = errors.New("connection refused")
	if got := r.says(p, why); got != nil {
		t.Errorf("away: %q", got)
	}
	r.err = nil
	if got := r.says(p, why); len(got) != 1 {
		t.Errorf("back: %q", got)
	}
	r = toldNew()
	r.err = kerrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "b", nil)
	if got := slices.Concat(r.says(p, why), r.says(p, why)); len(got) != 1 {
		t.Errorf("forbidden: %q", got)
	}
}
