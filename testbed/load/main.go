// Command load creates nodes and pods on the testbed's API server and measures when pods are bound.
//
// `load drive` creates the machines and pods of a plan, as fast as possible or at a given rate, and
// notes from one watch when each pod appeared and when it had its node, in the same way for every
// scheduler. It reads commands from its standard input, one per line, and answers each with a line
// of JSON. `load bind` is the null binder: it binds each pod at once to the machine that the plan
// names, which shows the maximum rate of the API server.
//
// It is written in Go, because it shares the processors with the schedulers that it measures.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of the API server")
	planned := flag.String("plan", "", "plan file: machines, classes and sets of pods")
	lease := flag.String("lease", "", "bind: first acquire this Lease, namespace/name")
	workers := flag.Int("workers", 32, "bind: parallel binding requests")
	events := flag.Bool("events", false, "bind: post an event for every pod, as schedulers do")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: load [flags] drive|bind")
		flag.PrintDefaults()
	}
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	plan, err := readPlan(*planned)
	if err != nil {
		log.Fatal(err)
	}
	client, err := connect(*kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	switch flag.Arg(0) {
	case "drive":
		err = drive(ctx, client, plan, os.Stdin, os.Stdout)
	case "bind":
		err = bindAll(ctx, client, plan, binding{*lease, *workers, *events})
	default:
		flag.Usage()
		os.Exit(2)
	}
	if err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// connect makes a client like that of kube-scheduler, but without rate limits.
func connect(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = -1, -1
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.UserAgent = "testbed-load"
	return kubernetes.NewForConfig(config)
}

// drive carries out commands, one per line, until the input ends.
func drive(
	ctx context.Context, client kubernetes.Interface, plan *plan, in io.Reader, out io.Writer,
) error {
	seen, err := observe(ctx, client, plan)
	if err != nil {
		return err
	}
	answers := json.NewEncoder(out)
	driver := &driver{client: client, plan: plan, seen: seen}
	if err := answers.Encode(map[string]any{"ready": true}); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		answer, err := driver.obey(ctx, words[0], words[1:], answers)
		if err != nil {
			// The program that sent the command reads the error.
			answer = map[string]any{"error": fmt.Sprintf("%s: %v", lines.Text(), err)}
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

type driver struct {
	client kubernetes.Interface
	plan   *plan
	seen   *observer
	held   *heldLease
}

func (d *driver) obey(
	ctx context.Context, command string, words []string, progress *json.Encoder,
) (any, error) {
	set := func() (*podSet, error) {
		if len(words) == 0 {
			return nil, fmt.Errorf("which set of pods?")
		}
		return d.plan.set(words[0])
	}
	switch command {
	case "nodes": // create all machines
		return timed(func() error { return createNodes(ctx, d.client, d.plan) })
	case "create": // SET: create its pods; pods of a fixed set are created with their node
		pods, err := set()
		if err != nil {
			return nil, err
		}
		defer d.seen.tell(ctx, pods, progress)()
		return timed(func() error { return createPods(ctx, d.client, d.plan, pods) })
	case "await": // SET SECONDS: until all are bound, or none was bound for so long
		pods, err := set()
		if err != nil {
			return nil, err
		}
		var seconds float64
		if len(words) < 2 {
			return nil, fmt.Errorf("for how many quiet seconds?")
		}
		if _, err := fmt.Sscanf(words[1], "%g", &seconds); err != nil {
			return nil, err
		}
		defer d.seen.tell(ctx, pods, progress)()
		return timed(func() error { return d.seen.await(ctx, pods, seconds) })
	case "delete": // SET: delete its pods and wait until they are gone
		pods, err := set()
		if err != nil {
			return nil, err
		}
		return timed(func() error { return deletePods(ctx, d.client, d.seen, pods) })
	case "report": // SET: when each pod appeared and was bound, and to which node
		pods, err := set()
		if err != nil {
			return nil, err
		}
		return d.seen.report(pods), nil
	case "hold": // NAMESPACE/NAME: hold this Lease, so that no scheduler leads
		if len(words) == 0 {
			return nil, fmt.Errorf("which lease?")
		}
		var err error
		d.held, err = hold(ctx, d.client, words[0])
		return map[string]any{"held": words[0]}, err
	case "release": // free the Lease; answers when a scheduler became leader
		if d.held == nil {
			return nil, fmt.Errorf("nothing is held")
		}
		return d.held.release(ctx)
	default:
		return nil, fmt.Errorf("no such command")
	}
}

// timed returns when the work began and ended, in seconds since the program started.
func timed(work func() error) (any, error) {
	began := sinceStart()
	err := work()
	return map[string]any{"began": began, "ended": sinceStart()}, err
}

var started = time.Now()

// sinceStart is the clock of all reports: monotonic, in seconds.
func sinceStart() float64 { return time.Since(started).Seconds() }
