//go:build unix

package soak

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
)

const (
	// mostMemory is what the gateway may use at any time.
	mostMemory = 400 << 20

	// mostGrowth is by which part of it the memory in use may grow in ten minutes,
	// as far as that can be told from chance, in a soak that lasts for longEnough. In
	// a shorter one the memory is still on its way to where it stays, and what is left
	// at rest tells more.
	mostGrowth = 0.01
	longEnough = 25 * time.Minute
)

// A memorySample is how much memory the gateway used at a time, in bytes.
type memorySample struct {
	at    time.Time
	bytes float64
}

// measureMemory notes how much memory the gateway uses.
func (w *rig) measureMemory() {
	w.samples = append(w.samples, memorySample{time.Now(), float64(gatewaytest.Resident(w.gateway.PID()))})
}

// checkMemory fails the test if the gateway used too much, or more and more.
func (w *rig) checkMemory(t *testing.T) {
	t.Helper()
	most := 0.0
	for _, x := range w.samples {
		most = max(most, x.bytes)
	}
	slope, chance := growth(w.samples)
	t.Logf("memory: at most %.0f MiB, %+.1f %% in ten minutes, give or take %.1f %%", most/(1<<20), 100*slope, 100*chance)
	if most > mostMemory {
		t.Errorf("the gateway used %.0f MiB", most/(1<<20))
	}
	if n := len(w.samples); n > 0 && w.samples[n-1].at.Sub(w.samples[0].at) > longEnough && slope-3*chance > mostGrowth {
		t.Errorf("the memory in use grew by %.1f %% in ten minutes, give or take %.1f %%", 100*slope, 100*chance)
	}
}

// growth returns by which part of their mean weights grow in ten minutes, and how
// far that may be off by chance. The first quarter is not looked at: it begins from
// a rest. Weights of the same ten seconds depend on each other, so they count as one.
func growth(all []memorySample) (slope, chance float64) {
	all = all[len(all)/4:]
	var x, y []float64 // in ten minutes, and the mean
	for i := 0; i < len(all); {
		sum, n, from := 0.0, 0, all[i].at
		for ; i < len(all) && all[i].at.Sub(from) < 10*time.Second; i++ {
			sum += all[i].bytes
			n++
		}
		x, y = append(x, from.Sub(all[0].at).Minutes()/10), append(y, sum/float64(n))
	}
	if len(x) < 3 {
		return 0, math.Inf(1)
	}
	mx, my := mean(x), mean(y)
	var sxx, sxy, left float64
	for i := range x {
		sxx += (x[i] - mx) * (x[i] - mx)
		sxy += (x[i] - mx) * (y[i] - my)
	}
	b := sxy / sxx
	for i := range x {
		d := y[i] - my - b*(x[i]-mx)
		left += d * d
	}
	return b / my, math.Sqrt(left/float64(len(x)-2)/sxx) / my
}

func mean(list []float64) float64 {
	sum := 0.0
	for _, v := range list {
		sum += v
	}
	return sum / float64(len(list))
}

// TestGrowthIsSeen shows growth what grows and what does not.
func TestGrowthIsSeen(t *testing.T) {
	for _, perTen := range []float64{0, 0.005, 0.03, 0.5} {
		t.Run(fmt.Sprint(perTen), func(t *testing.T) {
			var all []memorySample
			for i := range 6000 { // half an hour
				at := time.Duration(i) * 300 * time.Millisecond
				noise := 0.1 * math.Sin(float64(i)*0.7)
				all = append(all, memorySample{time.Unix(0, 0).Add(at), 1e8 * (1 + perTen*at.Minutes()/10 + noise)})
			}
			slope, chance := growth(all)
			if grows := slope-3*chance > mostGrowth; grows != (perTen > mostGrowth) {
				t.Errorf("grows is %v, by %v ± %v", grows, slope, chance)
			}
		})
	}
}
