package audit

import (
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkRecord is what a call costs that is written down: on its own way, and in all.
func BenchmarkRecord(b *testing.B) {
	e := Event{
		Kind: Call, Time: time.Now(), Request: "i75ovgj4jm-2e7", Caller: Caller{Address: "192.0.2.1", Client: "bench", Session: "OHAT6EPCBVFTDFJLX5CQJFAAOM", Transport: "http"},
		Server: "files", Method: "tools/call", Name: "echo", Outcome: Answered, Duration: time.Millisecond, In: 300, Out: 200,
	}
	b.Run("queue", func(b *testing.B) {
		l := &Log{queue: make(chan entry, maxQueue), closing: make(chan struct{})}
		b.ReportAllocs()
		for b.Loop() {
			l.Record(e)
			<-l.queue
		}
	})
	b.Run("begin", func(b *testing.B) {
		l := reopen(b, filepath.Join(b.TempDir(), "audit.log"), &Options{Refuse: true})
		for b.Loop() {
			if err := l.Begin(b.Context(), &e); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("write", func(b *testing.B) {
		f, err := openFile(filepath.Join(b.TempDir(), "audit.log"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.close()
		batch := make([]Event, 64)
		var buf []byte
		b.ReportAllocs()
		for b.Loop() {
			for i := range batch {
				batch[i] = e
				batch[i].complete()
			}
			if buf, err = f.write(buf, batch, (&Options{}).withDefaults()); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(batch)), "ns/record")
	})
}
