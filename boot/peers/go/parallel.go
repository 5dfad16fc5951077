package main

import (
	"sync"
	"sync/atomic"
	"time"
)

func milliseconds(start time.Time) float64 {
	return float64(time.Since(start).Nanoseconds()) / 1e6
}

func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

func fibForked(n int) int {
	if n < 12 {
		return fib(n)
	}
	left := make(chan int, 1)
	go func() { left <- fibForked(n - 1) }()
	right := fibForked(n - 2)
	return right + <-left
}

// fibParallel computes fib(27). For each call down to fib(12), a G is forked and joined. The function measures the first
// run and ten later runs separately, and then ten runs without further Gs.
func fibParallel(int) {
	const later = 10
	for _, each := range []struct {
		name string
		runs int
		fib  func(int) int
	}{{"fib27_cut12_cold", 1, fibForked}, {"fib27_cut12", later, fibForked}, {"fib27_sequential", later, fib}} {
		start := time.Now()
		for i := 0; i < each.runs; i++ {
			if each.fib(27) != 196_418 {
				panic("a wrong sum")
			}
		}
		report(each.name, 1e3*milliseconds(start)/float64(each.runs), "us")
	}
}

func isPrime(number uint64) bool {
	if number < 2 {
		return false
	}
	for divisor := uint64(3); divisor*divisor <= number; divisor += 2 {
		if number%divisor == 0 {
			return false
		}
	}
	return true
}

// splitPrimes splits a job into 64 Gs, which compute and never wait, and runs it with GOMAXPROCS 1, 2, 4 and 8.
func splitPrimes(int) {
	const parts = 64
	candidates := times(500_000)
	for _, procs := range []int{1, 2, 4, 8} {
		withProcs(procs, func() {
			var primes atomic.Int64
			start := time.Now()
			inParallel(parts, func(part int) {
				mine := int64(0)
				for n := part; n < candidates; n += parts {
					if isPrime(uint64(2*n + 1)) {
						mine++
					}
				}
				primes.Add(mine)
			})
			report("split_primes_64g", milliseconds(start), "ms")
			if primes.Load() == 0 {
				panic("no prime")
			}
		})
	}
}

// globalQueue runs one G for each P. Each of these Gs spawns 1000 Gs at a time and waits for them. A local queue has
// room for only 256, so most of them go through the global queue.
func globalQueue(procs int) {
	const burst = 1000
	rounds := times(50)
	measure("global_queue", procs*rounds*burst, func() {
		inParallel(procs, func(int) {
			for i := 0; i < rounds; i++ {
				var group sync.WaitGroup
				group.Add(burst)
				for k := 0; k < burst; k++ {
					go func() { group.Done() }()
				}
				group.Wait()
			}
		})
	})
}
