package httpframe_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
)

// A recorder one notes when it is called back.
type recorder struct {
	httpframe.TimeoutEntry
	mu    sync.Mutex
	start time.Time
	at    []time.Duration
}

func (l *recorder) Expired() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = append(l.at, time.Since(l.start))
}

func (l *recorder) called() []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.at)
}

func TestEachTimeoutExpiresInItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httpframe.NewTimeouts(10 * time.Second)
		start := time.Now()
		list := make([]*recorder, 6)
		for i := range list {
			list[i] = &recorder{start: start}
			w.Add(&list[i].TimeoutEntry, list[i])
			time.Sleep(time.Second)
		}
		for _, i := range []int{0, 3, 5} { // the first, one in the middle, the last
			if !w.Remove(&list[i].TimeoutEntry) {
				t.Errorf("%d expired too early", i)
			}
		}
		time.Sleep(time.Hour)
		for i, l := range list {
			var want []time.Duration
			if i == 1 || i == 2 || i == 4 {
				want = []time.Duration{time.Duration(i)*time.Second + 10*time.Second}
			}
			if got := l.called(); !slices.Equal(got, want) {
				t.Errorf("%d was called at %v, want %v", i, got, want)
			}
			if w.Remove(&l.TimeoutEntry) {
				t.Errorf("%d is still listed", i)
			}
		}
		again := list[1]
		w.Add(&again.TimeoutEntry, again) // the timer had stopped
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := again.called(); len(got) != 2 || got[1] != time.Hour+16*time.Second {
			t.Errorf("the second time it was called at %v", got)
		}
	})
}

// A timeout is either removed or expires, not both.
func TestTimeoutIsRemovedOrExpiresOnce(t *testing.T) {
	w := httpframe.NewTimeouts(50 * time.Microsecond)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 500 {
				l := &recorder{}
				called := make(chan struct{})
				w.Add(&l.TimeoutEntry, callback(func() { close(called) }))
				if i%2 == 0 {
					time.Sleep(50 * time.Microsecond)
				}
				if !w.Remove(&l.TimeoutEntry) {
					<-called // a second call would panic
				}
			}
		})
	}
	wg.Wait()
}

type callback func()

func (f callback) Expired() { f() }
