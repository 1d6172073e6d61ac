package main

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/api/core/v1"
)

// plan says what is created: read from a file, so that the same work is put on every scheduler.
type plan struct {
	// Manifests of machines.
	Nodes []v1.Node `json:"nodes"`
	// Manifests of pods without a name, by the name of their class.
	Classes map[string]v1.Pod `json:"classes"`
	Sets    map[string]podSet `json:"sets"`
}

// podSet is a number of pods that are created, awaited and reported together.
type podSet struct {
	Pods []plannedPod `json:"pods"`
	// Pods per second; 0 is as fast as the API server takes them.
	Rate float64 `json:"rate"`
	// Requests on their way at the same time.
	Workers int `json:"workers"`
	// Whether the pods are born on their machine, no scheduler having a say.
	Fixed bool `json:"fixed"`

	name string
}

// plannedPod is one pod, and a machine on which it may run; other pods leave room for it there.
type plannedPod struct {
	Name  string `json:"name"`
	Class string `json:"class"`
	Node  string `json:"node"`
}

func readPlan(path string) (*plan, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	read := &plan{}
	if err := json.Unmarshal(text, read); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for name, set := range read.Sets {
		set.name = name
		for _, pod := range set.Pods {
			if _, ok := read.Classes[pod.Class]; !ok {
				return nil, fmt.Errorf("%s: pod %s: no class %q", path, pod.Name, pod.Class)
			}
		}
		if set.Workers < 1 {
			return nil, fmt.Errorf("%s: set %s: workers is %d, want 1 or more",
				path, name, set.Workers)
		}
		read.Sets[name] = set
	}
	return read, nil
}

func (p *plan) set(name string) (*podSet, error) {
	found, ok := p.Sets[name]
	if !ok {
		return nil, fmt.Errorf("no set %q in the plan", name)
	}
	return &found, nil
}

// manifest is a pod of the plan as it is sent.
func (p *plan) manifest(pod plannedPod, fixed bool) *v1.Pod {
	template := p.Classes[pod.Class]
	made := template.DeepCopy()
	made.Name = pod.Name
	if fixed {
		made.Spec.NodeName = pod.Node
	}
	return made
}
