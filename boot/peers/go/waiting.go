package main

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// reportLate reports the median and the 99th percentile of times in nanoseconds.
func reportLate(name string, late []int64) {
	slices.Sort(late)
	quantile := func(share float64) float64 { return float64(late[int(share*float64(len(late)-1))]) / 1e3 }
	report(name+"_p50", quantile(.5), "us")
	report(name+"_p99", quantile(.99), "us")
}

// lateness sleeps, and returns how late the sleep ended, in nanoseconds.
func lateness(duration time.Duration) int64 {
	start := time.Now()
	time.Sleep(duration)
	return (time.Since(start) - duration).Nanoseconds()
}

// sleepers measures how late sleeps end. 1000 Gs sleep 20 times each, for 1 to 10 ms.
func sleepers(int) {
	var late [1000][]int64
	inParallel(1000, func(g int) {
		for n := 0; n < 20; n++ {
			late[g] = append(late[g], lateness(time.Duration(1+(g*7+n*3)%10)*time.Millisecond))
		}
	})
	reportLate("sleep_overshoot", slices.Concat(late[:]...))
}

var sink atomic.Uint64

// hogs measures how late main wakes from sleeps of 1 ms while hogs run (Gs that compute and never wait).
func hogs(procs int) {
	reportLate("hog_wakeup", besideHogs(procs, func() int64 { return lateness(time.Millisecond) }))
}

// pingPongBesideHogs measures, while hogs run, how late main gets an answer: main sleeps for 1 ms and then asks another G,
// which answers at once.
func pingPongBesideHogs(procs int) {
	there, here := make(chan int), make(chan int)
	go func() {
		for question := range there {
			here <- question
		}
	}()
	late := besideHogs(procs, func() int64 {
		late, woken := lateness(time.Millisecond), time.Now()
		there <- 0
		<-here
		return late + time.Since(woken).Nanoseconds()
	})
	close(there)
	reportLate("pingpong_beside_hogs", late)
}

// besideHogs calls body 100 times while each P has a hog, and returns the results.
func besideHogs(procs int, body func() int64) (results []int64) {
	var stop atomic.Bool
	var group sync.WaitGroup
	group.Add(procs)
	for i := 0; i < procs; i++ {
		go func() {
			x := uint64(1)
			for !stop.Load() {
				x = x*6364136223846793005 + 1442695040888963407
			}
			sink.Add(x)
			group.Done()
		}()
	}
	for i := 0; i < 100; i++ {
		results = append(results, body())
	}
	stop.Store(true)
	group.Wait()
	return results
}

// getcpu is the number of a system call of Linux on amd64 that the package syscall does not name.
const getcpu = 309

// place is the thread and the CPU on which a G runs.
type place struct{ thread, cpu uintptr }

// here returns the place of the caller. These system calls do not wait, so the scheduler need not know of them.
func here() place {
	var cpu uint32
	syscall.RawSyscall(getcpu, uintptr(unsafe.Pointer(&cpu)), 0, 0)
	thread, _, _ := syscall.RawSyscall(syscall.SYS_GETTID, 0, 0, 0)
	return place{thread, uintptr(cpu)}
}

// pingPongPlaces reports how many of the round trips between two Gs happen on one thread and on one CPU, in percent.
func pingPongPlaces(int) {
	const rounds = 20_000
	there, back := make(chan struct{}), make(chan place)
	go func() {
		for i := 0; i < rounds; i++ {
			<-there
			back <- here()
		}
	}()
	sameThread, sameCPU := 0, 0
	for i := 0; i < rounds; i++ {
		there <- struct{}{}
		theirs := <-back
		mine := here()
		if theirs.thread == mine.thread {
			sameThread++
		}
		if theirs.cpu == mine.cpu {
			sameCPU++
		}
	}
	report("pingpong_one_thread", 100*float64(sameThread)/rounds, "%")
	report("pingpong_one_cpu", 100*float64(sameCPU)/rounds, "%")
}

// threadSpawn measures the cost of threads: 500 Gs lock themselves to a thread and wait, all at the same time.
func threadSpawn(int) {
	const count = 500
	var locked, ended sync.WaitGroup
	end := make(chan struct{})
	locked.Add(count)
	ended.Add(count)
	measure("thread_spawn", count, func() {
		for i := 0; i < count; i++ {
			go func() {
				runtime.LockOSThread()
				locked.Done()
				<-end
				runtime.UnlockOSThread()
				ended.Done()
			}()
		}
		locked.Wait()
	})
	close(end)
	ended.Wait()
}

// parked measures how much memory a G takes while it waits for a channel, with 100,000 Gs.
func parked(int) {
	const count = 100_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	end := make(chan struct{})
	var ended sync.WaitGroup
	ended.Add(count)
	for i := 0; i < count; i++ {
		go func() {
			<-end
			ended.Done()
		}()
	}
	for i := 0; i < 10; i++ {
		runtime.Gosched()
		time.Sleep(10 * time.Millisecond)
	}
	runtime.ReadMemStats(&after)
	report("bytes_per_parked_g", float64(after.Sys-before.Sys)/count, "B")
	close(end)
	ended.Wait()
}
