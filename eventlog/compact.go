package eventlog

// emptySize is what a stream without events has on the disk, about.
const emptySize = 128

// compact moves what is kept out of the oldest segment and deletes that, if more
// of the disk is wasted than used. writing is held.
func (f *File) compact() error {
	f.mu.Lock()
	used := int64(f.index.empties.Len()) * emptySize
	for _, s := range f.segments {
		used += s.live
	}
	f.mu.Unlock()
	if len(f.segments) < 2 || f.disk-used <= max(used, f.segmentSize) {
		return nil
	}
	oldest := f.segments[0]
	_, err := scan(oldest.file, oldest.size, func(at int64, text []byte, r record) error {
		return f.move(place{in: oldest, at: at, size: len(text), head: head(r.stream), position: r.position}, text, &r)
	})
	if err != nil {
		return err
	}
	return f.remove()
}

// move writes a record of the oldest segment to the newest, if it is still
// needed. writing is held.
func (f *File) move(from place, text []byte, r *record) error {
	f.mu.Lock()
	s := f.index.streams[r.stream]
	inUse := s != nil && s.event(from.position) != nil && *s.event(from.position) == from
	mark := s != nil && s.newest == from
	f.mu.Unlock()
	switch {
	case inUse:
	case mark:
		text = (&record{kind: isLast, position: r.position, at: r.at, stream: r.stream}).appendTo(nil)
		if f.skipped(s) {
			text[flagAt] = 1
		}
	default:
		return nil
	}
	to, err := f.write(text, from.head, from.position)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := s.event(from.position); e != nil && *e == from {
		*e = to
		from.in.live -= int64(from.size)
		to.in.live += int64(to.size)
	}
	if s.newest == from {
		s.newest = to
	}
	return nil
}

// skipped reports whether a stream has lost the event behind its newest record.
func (f *File) skipped(s *stream[place]) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return s.last > s.newest.position
}

// dropOldestSegment deletes the oldest segment with all that is kept in it, because the
// disk is full. Streams whose newest record was there are forgotten. writing is
// held.
func (f *File) dropOldestSegment() error {
	oldest := f.segments[0]
	_, err := scan(oldest.file, oldest.size, func(_ int64, _ []byte, r record) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		s := f.index.streams[r.stream]
		switch {
		case s == nil:
		case s.newest.in == oldest:
			f.index.forget(s)
		default:
			for s.event(r.position) != nil && s.event(r.position).in == oldest {
				f.index.dropOldest(s)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return f.remove()
}

// reclaim makes room on a full disk, if some of what we have there is of little
// use. writing is held.
func (f *File) reclaim() error {
	if len(f.segments) == 1 {
		s := f.newest()
		f.mu.Lock()
		useful := 2*s.live > s.size
		f.mu.Unlock()
		if useful {
			return nil // who needs the room is somebody else
		}
		if err := f.roll(); err != nil {
			return err
		}
	}
	return f.dropOldestSegment()
}
