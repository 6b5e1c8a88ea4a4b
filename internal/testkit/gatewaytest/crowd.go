package gatewaytest

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Crowd is how many do something at once in Together.
const Crowd = 8

// Together calls f with each number below n, Crowd at a time, and returns when all are
// done. After the first error the rest is left out, and the test fails with it.
func Together(t testing.TB, n int, f func(i int) error) {
	t.Helper()
	var (
		all    sync.WaitGroup
		next   atomic.Int64
		failed atomic.Pointer[error]
	)
	for range Crowd {
		all.Go(func() { // ends when there is nothing left to do
			for i := int(next.Add(1)) - 1; i < n && failed.Load() == nil; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		t.Fatal(*err)
	}
}

// Lasting returns a client whose connections are used again, as many as a crowd needs.
// They are closed at the end of the test.
func Lasting(t testing.TB) *http.Client {
	t.Helper()
	way := &http.Transport{MaxIdleConnsPerHost: Crowd}
	t.Cleanup(way.CloseIdleConnections)
	return &http.Client{Transport: way, Timeout: Patience}
}

// Long returns how long something must take here that is to be in progress until all
// others have come, and takes so long elsewhere.
func Long(d time.Duration) time.Duration {
	if strict() {
		return d
	}
	return 3 * d
}

// Leeway returns what memory may come to here, in bytes, that comes back to so much
// elsewhere: a tenth is left to chance, and more on a busy machine.
func Leeway(memory int64) int64 {
	if strict() {
		return memory * 11 / 10
	}
	return memory * 3 / 2
}
