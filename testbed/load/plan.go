package main

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/api/core/v1"
)

// plan describes the machines and pods to create. It is the same for every scheduler.
type plan struct {
	// Manifests of machines.
	Nodes []v1.Node `json:"nodes"`
	// Manifests of pods without a name, by class.
	Classes map[string]v1.Pod `json:"classes"`
	Sets    map[string]podSet `json:"sets"`
}

// podSet is a set of pods that are created, awaited and reported together.
type podSet struct {
	Pods []plannedPod `json:"pods"`
	// Pods per second; 0: as fast as possible.
	Rate float64 `json:"rate"`
	// Parallel requests.
	Workers int `json:"workers"`
	// Whether the pods are created with their node, without a scheduler.
	Fixed bool `json:"fixed"`

	name string
}

// plannedPod is one pod and a machine that has room for it when all pods run on theirs.
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

// manifest returns the manifest of a pod of the plan.
func (p *plan) manifest(pod plannedPod, fixed bool) *v1.Pod {
	template := p.Classes[pod.Class]
	made := template.DeepCopy()
	made.Name = pod.Name
	if fixed {
		made.Spec.NodeName = pod.Node
	}
	return made
}
