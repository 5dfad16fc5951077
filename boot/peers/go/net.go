package main

import (
	"bytes"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The workloads of the network have both ends of each connection in this process, and use the loopback.

func must[T any](value T, err error) T {
	if err != nil {
		fail("net: %v", err)
	}
	return value
}

func listen() net.Listener { return must(net.Listen("tcp4", "127.0.0.1:0")) }

// connect makes a connection, and returns the end that has connected, and the end that was accepted.
func connect(listener net.Listener) (near, far net.Conn) {
	near = must(net.Dial("tcp4", listener.Addr().String()))
	return near, must(listener.Accept())
}

// netConnect measures the life of a connection: one end connects, the other accepts, and both are closed.
func netConnect(int) {
	operations := times(5_000)
	listener := listen()
	defer listener.Close()
	life := func() {
		near, far := connect(listener)
		near.Close()
		far.Close()
	}
	life()
	measure("net_connect", operations, func() {
		for i := 0; i < operations; i++ {
			life()
		}
	})
}

// netEcho measures a round trip of 64 bytes beside idle connections, each with a G that waits for data. Also reports the
// memory of an idle connection: both of its ends, in this process and in Linux, and the G.
func netEcho(int) {
	rounds := times(5_000)
	listener := listen()
	defer listener.Close()
	var echoes sync.WaitGroup
	serve := func() net.Conn {
		near, far := connect(listener)
		echoes.Go(func() { echo(far) })
		roundTrip(near)
		return near
	}
	near := serve()
	var idle []net.Conn
	before := availableMemory()
	for _, count := range []int{1, 100, 1_000, 10_000} {
		if 2*count+100 > openFiles() {
			break
		}
		for len(idle) < count {
			idle = append(idle, serve())
		}
		time.Sleep(100 * time.Millisecond)
		measure("net_echo_"+strconv.Itoa(count), rounds, func() {
			for i := 0; i < rounds; i++ {
				roundTrip(near)
			}
		})
	}
	report("net_connection", (before-availableMemory())/float64(len(idle)), "B")
	for _, conn := range append(idle, near) {
		conn.Close()
	}
	echoes.Wait()
}

// openFiles returns how many files the system lets this process open: each end of a connection is one.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		fail("getrlimit: %v", err)
	}
	return int(min(limit.Cur, math.MaxInt32))
}

// echo returns what arrives to the peer, until its end.
func echo(conn net.Conn) {
	buffer := make([]byte, 64)
	for {
		count, err := conn.Read(buffer)
		if err != nil {
			conn.Close()
			return
		}
		must(conn.Write(buffer[:count]))
	}
}

// roundTrip sends 64 bytes, and waits until they have returned.
func roundTrip(conn net.Conn) {
	var bytes [64]byte
	must(conn.Write(bytes[:]))
	must(io.ReadFull(conn, bytes[:]))
}

// availableMemory returns how many bytes of the computer's memory are available.
func availableMemory() float64 {
	_, rest, _ := strings.Cut(string(must(os.ReadFile("/proc/meminfo"))), "MemAvailable:")
	return 1024 * must(strconv.ParseFloat(strings.Fields(rest)[0], 64))
}

// netPollWake measures the time from a write at one end of a connection until the G that reads at the other end runs.
func netPollWake(int) {
	const events = 1_000
	withProcs(1, func() {
		listener := listen()
		defer listener.Close()
		near, far := connect(listener)
		begun, total := make(chan time.Time, 1), make(chan time.Duration)
		go func() {
			var sum time.Duration
			for i := 0; i < events; i++ {
				must(far.Read(make([]byte, 1)))
				sum += time.Since(<-begun)
			}
			total <- sum
		}()
		for i := 0; i < events; i++ {
			time.Sleep(100 * time.Microsecond)
			begun <- time.Now()
			must(near.Write([]byte{1}))
		}
		report("net_poll_wake", float64((<-total).Nanoseconds())/events, "ns/op")
		near.Close()
		far.Close()
	})
}

// netStream measures the time for each KiB of a long stream, which is written in parts of 64 KiB.
func netStream(int) {
	parts := times(1_280)
	part := make([]byte, 64*1024)
	listener := listen()
	defer listener.Close()
	near, far := connect(listener)
	total := make(chan int)
	go func() {
		part, sum := make([]byte, 64*1024), 0
		for {
			count, err := far.Read(part)
			sum += count
			if err != nil {
				far.Close()
				total <- sum
				return
			}
		}
	}()
	measure("net_stream_1k", parts*len(part)/1024, func() {
		for i := 0; i < parts; i++ {
			must(near.Write(part))
		}
		near.Close()
		if <-total != parts*len(part) {
			fail("net_stream: bytes are missing")
		}
	})
}

// netRequest measures a request to the server of this process: first over one connection for all requests, and then over
// a new connection for each request. The client is as simple as that of programs/src/bin/bench: it writes once, and reads
// until the answer is complete.
func netRequest(int) {
	requests := times(5_000)
	listener := listen()
	go http.Serve(listener, handler())
	dial := func() net.Conn { return must(net.Dial("tcp4", listener.Addr().String())) }
	conn := dial()
	request := []byte("GET / HTTP/1.1\r\nHost: loopback\r\n\r\n")
	ask(conn, request)
	measure("net_request", requests, func() {
		for i := 0; i < requests; i++ {
			ask(conn, request)
		}
	})
	conn.Close()
	request = []byte("GET / HTTP/1.1\r\nHost: loopback\r\nConnection: close\r\n\r\n")
	measure("net_request_connect", requests, func() {
		for i := 0; i < requests; i++ {
			conn := dial()
			ask(conn, request)
			must(io.Copy(io.Discard, conn))
			conn.Close()
		}
	})
	listener.Close()
}

// ask sends a request, and reads the answer until its body is complete.
func ask(conn net.Conn, request []byte) {
	must(conn.Write(request))
	var answer [1024]byte
	for filled := 0; !bytes.HasSuffix(answer[:filled], []byte(page)); {
		filled += must(conn.Read(answer[filled:]))
	}
}

const page = "hello, world\n"

// handler returns the handler of the server. Its paths are those of the program httpd that clients of benchmarks use.
func handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, page)
	})
	mux.HandleFunc("GET /zeros/{count}", func(w http.ResponseWriter, r *http.Request) {
		count := must(strconv.Atoi(r.PathValue("count")))
		w.Header().Set("Content-Length", strconv.Itoa(count))
		part := make([]byte, 64*1024)
		for count > 0 {
			written, err := w.Write(part[:min(count, len(part))])
			if err != nil {
				return
			}
			count -= written
		}
	})
	mux.HandleFunc("POST /discard", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, page)
	})
	return mux
}
