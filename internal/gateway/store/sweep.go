package store

import (
	"io/fs"
	"slices"
	"strings"
	"time"
)

const (
	// sweepEvery is how often records are looked through for those to go.
	sweepEvery = time.Hour

	// maxUnfinished is how old a file gets that was left behind in the middle
	// of a Put.
	maxUnfinished = 10 * time.Minute
)

// sweeper removes what is too old or too much, now and then.
func (d *Dir) sweeper() {
	defer close(d.done)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		d.sweep()
		select {
		case <-tick.C:
		case <-d.stop:
			return
		}
	}
}

func (d *Dir) sweep() {
	kinds, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		d.opts.Logger.Warn("old records are not removed", "error", err)
		return
	}
	for _, k := range kinds {
		if k.IsDir() {
			d.sweepKind(k.Name())
		}
	}
}

// sweepKind removes the old records of one folder.
func (d *Dir) sweepKind(folder string) {
	files, err := fs.ReadDir(d.root.FS(), folder)
	if err != nil {
		return // gone meanwhile
	}
	type record struct {
		name string
		at   time.Time
	}
	var left []record
	for _, f := range files {
		info, err := f.Info()
		if err != nil || !info.Mode().IsRegular() || !ours(f.Name()) {
			continue
		}
		name, at := folder+"/"+f.Name(), info.ModTime()
		switch {
		case d.expired(at), strings.HasSuffix(name, unfinished) && time.Since(at) > maxUnfinished:
			_ = d.root.Remove(name) // or the next sweep does
		case !strings.HasSuffix(name, unfinished):
			left = append(left, record{name, at})
		}
	}
	if len(left) <= d.opts.MaxRecords {
		return
	}
	slices.SortFunc(left, func(a, b record) int { return a.at.Compare(b.at) })
	for _, r := range left[:len(left)-d.opts.MaxRecords] {
		_ = d.root.Remove(r.name)
	}
}

// ours reports whether a file may be one of ours, by its name: somebody may have
// named a directory that holds other things.
func ours(name string) bool {
	if plain, ok := strings.CutSuffix(name, unfinished); ok {
		return len(plain) == 26 && strings.Trim(plain, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
	}
	plain := strings.TrimSuffix(name, damaged)
	return len(plain) == 32 && strings.Trim(plain, "0123456789abcdef") == ""
}
