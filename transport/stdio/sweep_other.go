//go:build !linux

package stdio

import "time"

// sweep kills the group until nobody is left, for at most d, and reports whether
// nobody is.
func (g *processGroup) sweep(d time.Duration) bool {
	end := time.Now().Add(d)
	for pause := time.Millisecond; g.alive(); pause = min(2*pause, 20*time.Millisecond) {
		g.kill()
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}
