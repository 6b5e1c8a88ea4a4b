package gateway

import (
	"context"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/config"
	"github.com/dragoman-mcp/dragoman/manager"
)

// WatchInterval is how often files are looked at for changes.
const WatchInterval = time.Second

// A Reloaded is what came of reading the configuration again.
type Reloaded struct {
	At      time.Time       `json:"at"`
	Error   string          `json:"error,omitempty"` // then the configuration before goes on
	Changes manager.Changes `json:"changes"`

	// Later are the keys whose changes need a restart of the program.
	Later []string `json:"later,omitempty"`
}

// errNoFile says that there is nothing to reload.
var errNoFile = errors.New("gateway: there is no file to read again")

// Reload reads the configuration again. One with errors changes nothing.
func (g *Gateway) Reload() (Reloaded, error) {
	if g.opts.Load == nil {
		return Reloaded{}, errNoFile
	}
	if g.draining.Load() {
		return Reloaded{}, errors.New("gateway: we are stopping")
	}
	done := Reloaded{At: time.Now()}
	g.mu.Lock()
	before := g.file.Files
	seen := stamps(before)
	g.mu.Unlock()
	file, report := g.opts.Load()
	err := report.Err()
	if err != nil {
		done.Error = err.Error()
		g.log.Error("the configuration has errors; the one before goes on", "error", err)
	} else {
		done.Later = g.later(file)
		if g.opts.Applied != nil {
			g.opts.Applied(file)
		}
		done.Changes = g.Apply(file)
		g.log.Info("the configuration was read again", "added", done.Changes.Added, "replaced", done.Changes.Replaced,
			"removed", done.Changes.Removed, "kept", len(done.Changes.Kept), "needs a restart", done.Later)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last, g.seen = done, seen
	if !slices.Equal(g.file.Files, before) {
		g.seen = stamps(g.file.Files)
	}
	return done, err
}

// later returns the keys that a running gateway cannot change.
func (g *Gateway) later(file *config.File) (keys []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, same := range map[string]bool{
		"listen": reflect.DeepEqual(g.file.Listen, file.Listen),
		"state":  g.file.State == file.State,
		"log":    g.file.Log.Format == file.Log.Format,
		"limits": g.limits == file.Limits,
	} {
		if !same {
			keys = append(keys, key)
		}
	}
	return keys
}

// Watch reloads the configuration whenever one of its files has changed, until
// ctx ends.
func (g *Gateway) Watch(ctx context.Context) {
	tick := time.NewTicker(WatchInterval)
	defer tick.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		g.mu.Lock()
		files, seen := g.file.Files, g.seen
		g.mu.Unlock()
		// A file that is being written changes again; it is read when it rests.
		now := stamps(files)
		if now != seen && now == last {
			_, _ = g.Reload() // which has told about errors
		}
		last = now
	}
}

// stamps returns what tells one state of files from another.
func stamps(files []string) string {
	var b strings.Builder
	for _, path := range files {
		if info, err := os.Stat(path); err == nil {
			b.WriteString(info.ModTime().String())
			b.WriteByte(' ')
			b.WriteString(time.Duration(info.Size()).String())
		}
		b.WriteByte('\n')
	}
	return b.String()
}
