package main

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// yield measures two Gs that yield to each other on one P.
func yield(int) {
	withProcs(1, func() {
		each := times(1_000_000)
		yields := func() {
			for i := 0; i < each; i++ {
				runtime.Gosched()
			}
		}
		measure("yield", 2*each, func() { inParallel(2, func(int) { yields() }) })
	})
}

// inParallel runs body in count Gs, and waits for all of them.
func inParallel(count int, body func(number int)) {
	var group sync.WaitGroup
	group.Add(count)
	for number := 0; number < count; number++ {
		go func(number int) {
			body(number)
			group.Done()
		}(number)
	}
	group.Wait()
}

// pingPong measures round trips between two Gs over two unbuffered channels.
func pingPong(int) {
	rounds := times(300_000)
	there, here, ended := make(chan int), make(chan int), make(chan struct{})
	go func() {
		for i := 0; i < rounds; i++ {
			here <- <-there
		}
		close(ended)
	}()
	measure("chan_pingpong", rounds, func() {
		for i := 0; i < rounds; i++ {
			there <- i
			<-here
		}
		<-ended
	})
}

// spawnJoin measures spawning a G and waiting for it.
func spawnJoin(int) {
	rounds := times(200_000)
	var group sync.WaitGroup
	measure("spawn_join", rounds, func() {
		for i := 0; i < rounds; i++ {
			group.Add(1)
			go func() { group.Done() }()
			group.Wait()
		}
	})
}

// spawnBatch measures spawning 10,000 Gs and waiting for all of them. The first batch is measured separately from the
// later ones.
func spawnBatch(int) {
	const batch = 10_000
	var group sync.WaitGroup
	round := func() {
		group.Add(batch)
		for i := 0; i < batch; i++ {
			go func() { group.Done() }()
		}
		group.Wait()
	}
	measure("spawn_batch_cold", batch, round)
	rounds := times(20)
	measure("spawn_batch", rounds*batch, func() {
		for i := 0; i < rounds; i++ {
			round()
		}
	})
}

// mutex measures eight Gs that increment a counter under one mutex.
func mutex(int) {
	each := times(200_000)
	var lock sync.Mutex
	count := 0
	measure("mutex_8g", 8*each, func() {
		inParallel(8, func(int) {
			for i := 0; i < each; i++ {
				lock.Lock()
				count++
				lock.Unlock()
			}
		})
	})
	if count != 8*each {
		panic("an increment is lost")
	}
}

// manyToMany measures messages from four senders to four receivers over a channel with capacity 128.
func manyToMany(int) {
	each := times(100_000)
	messages := make(chan int, 128)
	var sum atomic.Int64
	measure("chan_mpmc_4x4_cap128", 4*each, func() {
		var senders sync.WaitGroup
		senders.Add(4)
		go func() {
			senders.Wait()
			close(messages)
		}()
		inParallel(8, func(number int) {
			if number < 4 {
				for i := 0; i < each; i++ {
					messages <- i
				}
				senders.Done()
				return
			}
			mine := 0
			for value := range messages {
				mine += value
			}
			sum.Add(int64(mine))
		})
	})
	if sum.Load() != int64(2*each*(each-1)) {
		panic("a message is lost")
	}
}

// selectOfFour measures receives by selects over four unbuffered channels, each with one sender.
func selectOfFour(int) {
	each := times(50_000)
	var channels [4]chan int
	measure("select_4", 4*each, func() {
		for number := range channels {
			channel := make(chan int)
			channels[number] = channel
			go func() {
				for i := 0; i < each; i++ {
					channel <- i
				}
			}()
		}
		for i := 0; i < 4*each; i++ {
			select {
			case <-channels[0]:
			case <-channels[1]:
			case <-channels[2]:
			case <-channels[3]:
			}
		}
	})
}

// ring measures the hops of a token around a ring of 1000 Gs, which are linked by unbuffered channels.
func ring(int) {
	hops := times(1_000_000)
	first := make(chan int)
	last := first
	for i := 1; i < 1000; i++ {
		in, out := last, make(chan int)
		go func() {
			for token := range in {
				out <- token
			}
			close(out)
		}()
		last = out
	}
	measure("ring_1000", hops, func() {
		go func() { first <- hops }()
		for token := range last {
			if token <= 1000 {
				break
			}
			first <- token - 1000
		}
	})
	close(first)
}

// skynet runs a tree of Gs with ten children each and 100,000 leaves. It measures the first run and later runs
// separately.
func skynet(int) {
	run := func() {
		result := make(chan int)
		go node(result, 0, 100_000)
		if <-result != 4_999_950_000 {
			panic("a leaf is lost")
		}
	}
	measure("skynet_100k_cold", 111_111, run)
	runs := times(5)
	measure("skynet_100k", runs*111_111, func() {
		for i := 0; i < runs; i++ {
			run()
		}
	})
}

func node(parent chan<- int, number, size int) {
	if size == 1 {
		parent <- number
		return
	}
	results := make(chan int)
	size /= 10
	for child := 0; child < 10; child++ {
		go node(results, number+child*size, size)
	}
	sum := 0
	for child := 0; child < 10; child++ {
		sum += <-results
	}
	parent <- sum
}
