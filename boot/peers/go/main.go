// The benchmark in Go. Its workloads have the same names and parameters as those of programs/src/bin/bench, and each of them
// prints the same kind of line: bench NAME procs=N VALUE UNIT.
//
//	peer [scale=F] [procs=N,...] [FILTER]...
//	peer serve ADDRESS
//
// The second form is the server that `compare net` compares with the program httpd.
//
// All numbers of repetitions are multiplied by scale, which is 1 on the host and 0.2 on an emulated machine.
package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// workload has a name and a function that reports one or more results. The function is called with the current number
// of Ps.
type workload struct {
	name string
	run  func(procs int)
}

// workloads lists the workloads in the same order as programs/src/bin/bench.
var workloads = []workload{
	{"yield", yield},
	{"chan_pingpong", pingPong},
	{"spawn_join", spawnJoin},
	{"spawn_batch", spawnBatch},
	{"chan_mpmc_4x4_cap128", manyToMany},
	{"select_4", selectOfFour},
	{"ring_1000", ring},
	{"skynet_100k", skynet},
	{"mutex_8g", mutex},
	{"fib27_cut12", fibParallel},
	{"sleep_overshoot", sleepers},
	{"hog_wakeup", hogs},
	{"pingpong_beside_hogs", pingPongBesideHogs},
	{"global_queue", globalQueue},
	{"split_primes_64g", splitPrimes},
	{"pingpong_one", pingPongPlaces},
	{"thread_spawn", threadSpawn},
	{"bytes_per_parked_g", parked},
	{"net_connect", netConnect},
	{"net_echo", netEcho},
	{"net_poll_wake", netPollWake},
	{"net_stream", netStream},
	{"net_request", netRequest},
}

var scale = 1.0

// times returns the number of repetitions for the current scale.
func times(atScaleOne int) int {
	return max(1, int(float64(atScaleOne)*scale))
}

func report(name string, value float64, unit string) {
	fmt.Printf("bench %s procs=%d %.1f %s\n", name, runtime.GOMAXPROCS(0), value, unit)
}

// measure runs body and reports the nanoseconds per operation. operations is the number of operations that body
// performs.
func measure(name string, operations int, body func()) {
	start := time.Now()
	body()
	report(name, float64(time.Since(start).Nanoseconds())/float64(operations), "ns/op")
}

// withProcs runs body with procs Ps.
func withProcs(procs int, body func()) {
	before := runtime.GOMAXPROCS(procs)
	body()
	runtime.GOMAXPROCS(before)
}

func fail(format string, values ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", values...)
	os.Exit(64)
}

func main() {
	flag.Parse()
	if flag.Arg(0) == "serve" {
		listener := must(net.Listen("tcp4", flag.Arg(1)))
		fmt.Println(identity())
		fmt.Println("peer: port " + flag.Arg(1))
		fail("serve: %v", http.Serve(listener, handler()))
	}
	procs := []int{runtime.NumCPU()}
	var filters []string
	for _, word := range flag.Args() {
		if list, ok := strings.CutPrefix(word, "procs="); ok {
			procs = nil
			for _, number := range strings.Split(list, ",") {
				n, err := strconv.Atoi(number)
				if err != nil || n < 1 {
					fail("procs=%s: expected numbers, separated by commas", list)
				}
				procs = append(procs, n)
			}
		} else if number, ok := strings.CutPrefix(word, "scale="); ok {
			var err error
			if scale, err = strconv.ParseFloat(number, 64); err != nil {
				fail("scale=%s: expected a number", number)
			}
		} else {
			filters = append(filters, word)
		}
	}
	fmt.Println(identity())
	for _, n := range procs {
		for _, w := range workloads {
			if isSelected(w.name, filters) {
				withProcs(n, func() { w.run(n) })
			}
		}
	}
	fmt.Println("bench done")
}

// identity says what this program is, and where it runs.
func identity() string {
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	plural := "s"
	if runtime.NumCPU() == 1 {
		plural = ""
	}
	place := strings.TrimSpace(string(release))
	return fmt.Sprintf("%s on Linux %s, on %d CPU%s", runtime.Version(), place, runtime.NumCPU(), plural)
}

func isSelected(name string, filters []string) bool {
	for _, filter := range filters {
		if strings.Contains(name, filter) {
			return true
		}
	}
	return len(filters) == 0
}
