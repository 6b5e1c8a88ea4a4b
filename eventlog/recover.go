package eventlog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// recovered is what the files say about a stream.
type recovered struct {
	name   string
	places []place
	last   int64 // as far as it has come
	newest place // the record that says so
	at     time.Time
}

// recover fills the index with what the files hold.
func (f *File) recover(now time.Time) error {
	streams := make(map[string]*recovered)
	for i, s := range f.segments {
		whole, err := scan(s.file, s.size, func(at int64, text []byte, r record) error {
			note(streams, place{in: s, at: at, size: len(text), head: head(r.stream), position: r.position}, &r)
			return nil
		})
		switch {
		case err == nil:
			continue
		case errors.Is(err, errDamaged):
			return f.startOver(streams, err)
		case !errors.Is(err, errTorn):
			return err
		}
		// A process was killed, or the disk was full, in the middle of a write.
		// Append had not returned, or had failed.
		f.logger.Info("the last record of a file is not whole and is cut off", "file", segmentName(s.number), "bytes", s.size-whole)
		if i == len(f.segments)-1 {
			if err := s.file.Truncate(whole); err != nil {
				return err
			}
		}
		f.disk -= s.size - whole
		s.size = whole
	}
	list := make([]*recovered, 0, len(streams))
	for _, s := range streams {
		if s.at.After(now) {
			s.at = now // the clock has been set back
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *recovered) int { return a.at.Compare(b.at) })
	for _, s := range list {
		f.restore(s)
	}
	f.index.expire(now)
	f.index.trimEmpty()
	return nil
}

// note adds a record to what is known of its stream.
func note(streams map[string]*recovered, p place, r *record) {
	if r.kind == isDrop {
		delete(streams, r.stream)
		return
	}
	s := streams[r.stream]
	if s == nil {
		s = &recovered{name: r.stream}
		streams[r.stream] = s
	}
	if r.kind == isEvent {
		s.places = append(s.places, p)
	}
	if r.position >= s.newest.position { // a copy is newer, and stays longer
		s.newest, s.at = p, r.at
	}
	s.last = max(s.last, r.position)
	if r.gap {
		s.last = max(s.last, r.position+1)
	}
}

// restore puts a stream into the index, with the events that lead to its last
// position without a gap.
func (f *File) restore(s *recovered) {
	slices.SortFunc(s.places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.in.number, b.in.number))
	})
	// Of an event that was moved when we were killed there are two.
	single := s.places[:0]
	for _, p := range s.places {
		if n := len(single); n > 0 && single[n-1].position == p.position {
			single[n-1] = p
			continue
		}
		single = append(single, p)
	}
	first := len(single)
	for next := s.last; first > 0 && single[first-1].position == next; next-- {
		first--
	}
	v := &stream[place]{name: s.name, last: s.last - int64(len(single)-first)}
	f.index.addEmpty(v)
	for _, p := range single[first:] {
		p.in.live += int64(p.size)
		f.index.add(v, p, s.at)
	}
	v.newest = s.newest
}

// startOver forgets everything because the files are damaged, and continues behind
// every position that may have been given out.
func (f *File) startOver(streams map[string]*recovered, reason error) error {
	f.logger.Error("the event log is damaged, all its events are lost", "error", reason)
	for _, s := range streams {
		f.index.floor = max(f.index.floor, s.last)
	}
	f.index.floor += f.disk / (recordHead + bodyHead) // there were no more records than that
	if err := f.roll(); err != nil {
		return err
	}
	for len(f.segments) > 1 {
		if err := f.remove(); err != nil {
			return fmt.Errorf("a damaged file stays: %w", err)
		}
	}
	return nil
}
