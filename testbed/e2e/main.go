// Command e2e runs the scheduling specs of Kubernetes' own end-to-end tests against a cluster.
//
// The specs, their names and what they require are those of k8s.io/kubernetes/test/e2e/scheduling.
// It writes one JSON object per line into the file --spec-report: first the number of specs that
// will run, then each spec as it starts and as it ends. Everything else is the log of the specs.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	"k8s.io/component-base/logs"

	_ "k8s.io/kubernetes/test/e2e/feature"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	_ "k8s.io/kubernetes/test/e2e/scheduling"
)

// line is one line of the output; a spec is named in each line but the first.
type line struct {
	Event string `json:"event"` // "suite", "started" or "ended"
	// Of "suite".
	Specs int `json:"specs,omitempty"`
	// Of "started" and "ended".
	Name string `json:"name,omitempty"`
	// Of "ended".
	State       string  `json:"state,omitempty"` // "passed", "skipped", otherwise a way to fail
	Conformance bool    `json:"conformance,omitempty"`
	Seconds     float64 `json:"seconds,omitempty"`
	Failure     string  `json:"failure,omitempty"`
	Location    string  `json:"location,omitempty"`
}

// outcome is what ginkgo tells the test that runs it.
type outcome struct{ failed bool }

func (o *outcome) Fail() { o.failed = true }

func main() {
	file := flag.String("spec-report", "", "file for the specs and their results")
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	logs.InitLogs()
	defer logs.FlushLogs()
	framework.AfterReadingAllFlags(&framework.TestContext)
	lines, err := os.Create(*file)
	if err != nil {
		fmt.Fprintf(os.Stderr, "--spec-report: %v\n", err)
		os.Exit(2)
	}
	reportTo(json.NewEncoder(lines))

	gomega.RegisterFailHandler(framework.Fail)
	suite, reporter := ginkgo.GinkgoConfiguration()
	result := &outcome{}
	if !ginkgo.RunSpecs(result, "scheduling", suite, reporter) || result.failed {
		logs.FlushLogs()
		os.Exit(1)
	}
}

// reportTo writes a line for the suite, and for each spec before and after it.
func reportTo(lines *json.Encoder) {
	write := func(each line) {
		if err := lines.Encode(each); err != nil {
			fmt.Fprintf(os.Stderr, "--spec-report: %v\n", err)
			os.Exit(2)
		}
	}
	ginkgo.ReportBeforeSuite(func(report types.Report) {
		write(line{Event: "suite", Specs: report.PreRunStats.SpecsThatWillRun})
	})
	ginkgo.ReportBeforeEach(func(spec types.SpecReport) {
		if spec.State != types.SpecStateSkipped {
			write(line{Event: "started", Name: spec.FullText()})
		}
	})
	ginkgo.ReportAfterEach(func(spec types.SpecReport) {
		if spec.State == types.SpecStateSkipped && spec.RunTime == 0 {
			return // left out by --ginkgo.focus or --ginkgo.skip
		}
		ended := line{
			Event:       "ended",
			Name:        spec.FullText(),
			State:       spec.State.String(),
			Conformance: strings.Contains(spec.FullText(), "[Conformance]"),
			Seconds:     spec.RunTime.Seconds(),
			Failure:     spec.Failure.Message,
		}
		if spec.Failure.Message != "" {
			ended.Location = spec.Failure.Location.String()
		}
		write(ended)
	})
}
