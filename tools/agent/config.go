// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"
)

// config is what the ConfigMap says. What has no default is left alone: nothing
// would say what it is when nobody names it any more.
type config struct {
	defaults        values
	priorityClasses map[string]values
	namespaces      map[string]namespace
}

type namespace struct {
	defaults values
	may      values // what its pods may ask for
}

// text is a value as people write it in YAML: "10mbit", or 3.
type text string

func (t *text) UnmarshalJSON(data []byte) error {
	var number json.Number

	if json.Unmarshal(data, (*string)(t)) == nil {
		return nil
	}
	err := json.Unmarshal(data, &number)
	*t = text(number)
	return err
}

type texts map[string]text

// configFile is the YAML.
type configFile struct {
	Default         texts            `json:"default"`
	PriorityClasses map[string]texts `json:"priorityClasses"`
	Namespaces      map[string]struct {
		Default texts `json:"default"`
		May     texts `json:"may"`
	} `json:"namespaces"`
}

// configKey is that of the ConfigMap's data.
const configKey = "config.yaml"

func parseConfig(data []byte) (*config, error) {
	var file configFile
	var err error

	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return nil, err
	}
	c := &config{priorityClasses: map[string]values{}, namespaces: map[string]namespace{}}
	read := func(where string, from texts) values {
		v, wrong := c.values(where, from)
		if err == nil {
			err = wrong
		}
		return v
	}
	c.defaults = read("default", file.Default)
	for _, name := range slices.Sorted(maps.Keys(file.PriorityClasses)) {
		c.priorityClasses[name] = read("priorityClasses."+name, file.PriorityClasses[name])
	}
	for _, name := range slices.Sorted(maps.Keys(file.Namespaces)) {
		from := file.Namespaces[name]
		n := namespace{read("namespaces."+name+".default", from.Default),
			read("namespaces."+name+".may", from.May)}
		c.namespaces[name] = n
		if err == nil {
			err = n.validate(name)
		}
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// values of another part name only what there is a default of.
func (c *config) values(where string, from texts) (values, error) {
	var found values

	for _, name := range slices.Sorted(maps.Keys(from)) {
		w, err := wordOf(name)
		if err != nil {
			return found, fmt.Errorf("%s.%s: %w", where, name, err)
		}
		if where != "default" && c.defaults[w] == nil {
			return found, fmt.Errorf("%s.%s: default does not name it", where, name)
		}
		value, err := parseValue(w, string(from[name]))
		if err != nil {
			return found, fmt.Errorf("%s.%s: %w", where, name, err)
		}
		found[w] = &value
	}
	if found[egressFloor] != nil && found[egressCeil] != nil &&
		*found[egressFloor] > *found[egressCeil] {
		return found, fmt.Errorf("%s: egress-floor is above egress-ceil", where)
	}
	return found, nil
}

// validate refuses defaults that the namespace may not ask for.
func (n *namespace) validate(name string) error {
	if n.may[egressLatency] != nil || n.may[ingressLatency] != nil {
		return fmt.Errorf("namespaces.%s.may: a latency has no bound", name)
	}
	for w := range words {
		if w != egressFloor && n.defaults[w] != nil && n.may[w] != nil &&
			isMore(w, *n.defaults[w], *n.may[w]) {
			return fmt.Errorf("namespaces.%s.default.%s is more than may.%s", name,
				words[w].name, words[w].name)
		}
	}
	return nil
}

// isMore says that a value is more than a pod may ask for.
func isMore(w int, value, bound uint64) bool {
	switch w {
	case egressPrio:
		return value < bound
	case egressLatency, ingressLatency:
		return false
	}
	return value > bound
}

func or(lists ...values) values {
	var first values

	for w := range first {
		for _, list := range lists {
			if list[w] != nil {
				first[w] = list[w]
				break
			}
		}
	}
	return first
}

// base is what pods of the namespace have without annotation and PriorityClass.
func (c *config) base(namespace string) values {
	return or(c.namespaces[namespace].defaults, c.defaults)
}

// bounds are what pods of the namespace may ask for: what the ConfigMap says, or else
// no more than they have anyway. The one of floors is for their sum above the base.
func (c *config) bounds(namespace string) values {
	var nothing uint64

	bounds := or(c.namespaces[namespace].may, c.base(namespace))
	if c.defaults[egressFloor] != nil && c.namespaces[namespace].may[egressFloor] == nil {
		bounds[egressFloor] = &nothing
	}
	return bounds
}
