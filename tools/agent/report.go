// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// reporter tells pods who is refused, once for each change of that. The API may be
// away or slow: the agent does not wait for it.
type reporter struct {
	patch  func(ctx context.Context, p *pod, patch []byte) error
	events record.EventRecorder
	told   map[types.UID]string // key of the refusal, or empty
	wake   chan struct{}
	mutex  sync.Mutex
	pods   []*pod
	now    map[types.UID]*refusal
}

func reporterNew(a *api) *reporter {
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(a)
	return &reporter{patch: a.patchStatus, told: map[types.UID]string{},
		wake: make(chan struct{}, 1), events: broadcaster.NewRecorder(a.scheme,
			corev1.EventSource{Component: "bpshaper-agent", Host: a.node})}
}

// set says how things are.
func (r *reporter) set(pods []*pod, refused map[types.UID]*refusal) {
	r.mutex.Lock()
	r.pods, r.now = pods, refused
	r.mutex.Unlock()
	wake(r.wake)
}

func wake(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}

func (r *reporter) run(ctx context.Context) {
	for {
		var again <-chan time.Time

		r.mutex.Lock()
		pods, now := r.pods, r.now
		r.mutex.Unlock()
		if !r.tellAll(ctx, pods, now) {
			again = time.After(5 * time.Second)
		}
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-again:
		}
	}
}

// tellAll returns false if it must be called again.
func (r *reporter) tellAll(ctx context.Context, pods []*pod, now map[types.UID]*refusal) bool {
	there := make(map[types.UID]string, len(pods))
	isDone := true
	for _, p := range pods {
		last, known := r.told[p.uid]
		if !known {
			last = p.toldBefore(now[p.uid])
		}
		key := ""
		if now[p.uid] != nil {
			key = now[p.uid].reason + " " + now[p.uid].key
		}
		if key != last && !r.tell(ctx, p, now[p.uid]) {
			key, isDone = last, false
		}
		there[p.uid] = key
	}
	r.told = there
	return isDone
}

// toldBefore is the key that an agent before this one has told.
func (p *pod) toldBefore(why *refusal) string {
	switch {
	case p.condition == nil || p.condition.Status != corev1.ConditionFalse:
		return ""
	case why != nil && p.condition.Reason == why.reason &&
		strings.HasPrefix(p.condition.Message, why.key):
		return why.reason + " " + why.key
	}
	return p.condition.Reason
}

// tell returns false if the API cannot be reached. An Event comes once only, so it is
// last.
func (r *reporter) tell(ctx context.Context, p *pod, why *refusal) bool {
	condition := corev1.PodCondition{Type: conditionType, Status: corev1.ConditionTrue,
		Reason: "Applied", Message: "", LastTransitionTime: metav1.Now()}
	kind, text := corev1.EventTypeNormal, "the class of the pod is as annotations say"
	if why != nil {
		condition.Status, condition.Reason, condition.Message = corev1.ConditionFalse,
			why.reason, why.text
		kind, text = corev1.EventTypeWarning, why.text
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.uid},
		"status": map[string]any{"conditions": []any{condition}}})
	if err == nil {
		err = r.patch(ctx, p, patch)
	}
	if err != nil && !isAnswer(err) {
		slog.Warn("the API is away", "error", err)
		return false
	}
	if errors.IsForbidden(err) {
		slog.Error("setting a condition", "pod", p.fullName(), "error", err)
	}
	slog.Info(text, "pod", p.fullName(), "reason", condition.Reason)
	r.events.Event(&corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", UID: p.uid,
		Namespace: p.namespace, Name: p.name}, kind, condition.Reason, text)
	return true
}

// isAnswer says that the same question would have the same answer.
func isAnswer(err error) bool {
	return errors.IsForbidden(err) || errors.IsNotFound(err) || errors.IsConflict(err) ||
		errors.IsInvalid(err)
}
