package humanize_test

import (
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
)

func TestDurationsAreRoundedForPeople(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 7 * time.Microsecond: "7µs", 123456: "123µs", 1234567: "1.2ms", 340123456: "340ms", 1234 * time.Millisecond: "1.2s",
		34567 * time.Millisecond: "35s", 2 * time.Minute: "2m", 125 * time.Second: "2m5s", 3*time.Hour + 61*time.Second: "3h1m", 51 * time.Hour: "2d3h",
		-1500 * time.Millisecond: "-1.5s",
	} {
		if got := humanize.Duration(d); got != want {
			t.Errorf("%d is %s, want %s", d, got, want)
		}
	}
}

func TestSizesHaveTheirUnits(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 1234567: "1.2 MB", 2_500_000_000: "2.5 GB"} {
		if got := humanize.Bytes(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}

func TestOneIsSingular(t *testing.T) {
	for n, want := range map[int]string{0: "0 servers", 1: "1 server", 2: "2 servers"} {
		if got := humanize.Count(n, "server"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
