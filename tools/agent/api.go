// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// conditionType is that of the agent's condition on a pod.
const conditionType corev1.PodConditionType = prefix + "applied"

// api is the part of the API that the agent uses: it reads two kinds, and writes Events and
// a condition.
type api struct {
	client *rest.RESTClient
	scheme *runtime.Scheme
	node   string
	pods   cache.Store
	files  cache.Store       // the ConfigMap
	key    string            // its name
	file   *corev1.ConfigMap // that conf was made of
	conf   *config
	known  map[*corev1.Pod]*pod
	synced []cache.InformerSynced
	run    []func(stop <-chan struct{})
}

func apiOpen(o *options) (*api, error) {
	conf, err := &rest.Config{Host: o.server}, error(nil)
	if o.server == "" {
		if conf, err = rest.InClusterConfig(); err != nil {
			return nil, err
		}
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	conf.UserAgent = "bpshaper-agent/" + release
	conf.APIPath, conf.GroupVersion = "/api", &corev1.SchemeGroupVersion
	conf.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(conf)
	if err != nil {
		return nil, err
	}
	return &api{client: client, scheme: scheme, node: o.node,
		key: o.namespace + "/" + o.name}, nil
}

// watch calls changed when something that the agent reads has changed.
func (a *api) watch(o *options, changed func()) {
	a.pods = a.inform(&corev1.Pod{}, "pods", metav1.NamespaceAll,
		fields.OneTermEqualSelector("spec.nodeName", o.node), func(old, now any) {
			before, after := podOf(old.(*corev1.Pod)), podOf(now.(*corev1.Pod))
			if !before.isSame(after) {
				changed()
			}
		}, changed)
	a.files = a.inform(&corev1.ConfigMap{}, "configmaps", o.namespace,
		fields.OneTermEqualSelector("metadata.name", o.name),
		func(any, any) { changed() }, changed)
}

func (a *api) inform(kind runtime.Object, resource, namespace string, selector fields.Selector,
	update func(old, now any), changed func()) cache.Store {
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(a.client, resource, namespace, selector),
		ObjectType:    kind,
		Transform:     stripped,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { changed() },
			UpdateFunc: update,
			DeleteFunc: func(any) { changed() },
		},
	})
	a.synced = append(a.synced, controller.HasSynced)
	a.run = append(a.run, controller.Run)
	return store
}

// start returns when all is known, or the context is done.
func (a *api) start(ctx context.Context) bool {
	for _, run := range a.run {
		go run(ctx.Done())
	}
	return cache.WaitForCacheSync(ctx.Done(), a.synced...)
}

// stripped keeps of a pod what the agent reads.
func stripped(object any) (any, error) {
	p, is := object.(*corev1.Pod)
	if !is {
		return object, nil
	}
	annotations := map[string]string{}
	for key, value := range p.Annotations {
		if strings.HasPrefix(key, prefix) || strings.HasPrefix(key, "kubernetes.io/") &&
			strings.HasSuffix(key, "-bandwidth") {
			annotations[key] = value
		}
	}
	short := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name,
		UID: p.UID, ResourceVersion: p.ResourceVersion, Annotations: annotations,
		CreationTimestamp: p.CreationTimestamp},
		Spec:   corev1.PodSpec{PriorityClassName: p.Spec.PriorityClassName},
		Status: corev1.PodStatus{Phase: p.Status.Phase, PodIP: p.Status.PodIP}}
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == conditionType {
			short.Status.Conditions = p.Status.Conditions[i : i+1 : i+1]
		}
	}
	return short, nil
}

func podOf(from *corev1.Pod) *pod {
	p := &pod{uid: from.UID, namespace: from.Namespace, name: from.Name,
		created: from.CreationTimestamp.Time, annotations: from.Annotations,
		priorityClass: from.Spec.PriorityClassName,
		isRunning:     from.Status.PodIP != "" && from.Status.Phase == corev1.PodRunning}
	if len(from.Status.Conditions) != 0 {
		p.condition = &from.Status.Conditions[0]
	}
	return p
}

func (p *pod) isSame(other *pod) bool {
	return p.uid == other.uid && p.priorityClass == other.priorityClass &&
		p.isRunning == other.isRunning && maps.Equal(p.annotations, other.annotations)
}

// allPods makes anew what has changed: the store has another object then.
func (a *api) allPods() []*pod {
	list := a.pods.List()
	pods, known := make([]*pod, len(list)), make(map[*corev1.Pod]*pod, len(list))
	for i, one := range list {
		from := one.(*corev1.Pod)
		if pods[i] = a.known[from]; pods[i] == nil {
			pods[i] = podOf(from)
		}
		known[from] = pods[i]
	}
	a.known = known
	return pods
}

// config reads the ConfigMap, once if it stays as it is.
func (a *api) config() (*config, error) {
	object, found, err := a.files.GetByKey(a.key)
	if err != nil || !found {
		return nil, fmt.Errorf("there is no ConfigMap %s", a.key)
	}
	file := object.(*corev1.ConfigMap)
	if file == a.file {
		return a.conf, nil
	}
	data, found := file.Data[configKey]
	if !found {
		return nil, fmt.Errorf("the ConfigMap %s has no %s", a.key, configKey)
	}
	conf, err := parseConfig([]byte(data))
	if err != nil {
		return nil, fmt.Errorf("the ConfigMap %s: %w", a.key, err)
	}
	a.file, a.conf = file, conf
	return conf, nil
}

// patchStatus sets a condition of a pod.
func (a *api) patchStatus(ctx context.Context, p *pod, patch []byte) error {
	return a.client.Patch(types.StrategicMergePatchType).Namespace(p.namespace).
		Resource("pods").Name(p.name).SubResource("status").Body(patch).Do(ctx).Error()
}

// The recorder of client-go writes Events by these.

func (a *api) Create(event *corev1.Event) (*corev1.Event, error) {
	result := &corev1.Event{}
	return result, a.client.Post().Namespace(event.Namespace).Resource("events").
		Body(event).Do(context.Background()).Into(result)
}

// Update is not called by the recorder.
func (a *api) Update(*corev1.Event) (*corev1.Event, error) { return nil, errors.ErrUnsupported }

func (a *api) Patch(event *corev1.Event, data []byte) (*corev1.Event, error) {
	result := &corev1.Event{}
	return result, a.client.Patch(types.StrategicMergePatchType).Namespace(event.Namespace).
		Resource("events").Name(event.Name).Body(data).Do(context.Background()).Into(result)
}
