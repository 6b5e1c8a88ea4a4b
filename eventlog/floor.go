package eventlog

import (
	"encoding/binary"
	"hash/crc32"
	"os"
)

// A floorFile keeps the position that no forgotten stream came further than. It
// has two slots that are written in turn and in their place: that needs no room
// on the disk, and one of them is always whole.
type floorFile struct {
	file  *os.File
	turn  int64
	saved int64
}

const slotSize = 8 + 8 + 4 // turn, floor, checksum

// open reads the file, which is made if it is not there.
func (p *floorFile) open(dir *os.Root) (floor int64, err error) {
	if p.file, err = dir.OpenFile("floor", os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return 0, err
	}
	var text [2 * slotSize]byte
	n, _ := p.file.ReadAt(text[:], 0) // what is not there is no slot
	for at := 0; at+slotSize <= n; at += slotSize {
		slot := text[at : at+slotSize]
		if binary.BigEndian.Uint32(slot[16:]) != crc32.Checksum(slot[:16], checksums) {
			continue
		}
		p.turn = max(p.turn, int64(binary.BigEndian.Uint64(slot)))
		floor = max(floor, int64(binary.BigEndian.Uint64(slot[8:])))
	}
	p.saved = floor
	if n < len(text) {
		for range 2 { // so that there is room for both from now on
			if err := p.write(floor); err != nil {
				return 0, err
			}
		}
	}
	return floor, nil
}

func (p *floorFile) write(floor int64) error {
	p.turn++
	slot := binary.BigEndian.AppendUint64(nil, uint64(p.turn))
	slot = binary.BigEndian.AppendUint64(slot, uint64(floor))
	slot = binary.BigEndian.AppendUint32(slot, crc32.Checksum(slot, checksums))
	_, err := p.file.WriteAt(slot, p.turn%2*slotSize)
	return err
}

func (p *floorFile) close() error { return p.file.Close() }

// saveFloor writes the floor down, if it has risen. It must be done before the
// last record of a forgotten stream goes. writing is held.
func (f *File) saveFloor() error {
	f.mu.Lock()
	floor := f.index.floor
	f.mu.Unlock()
	if floor == f.floor.saved {
		return nil
	}
	if err := f.floor.write(floor); err != nil {
		return err
	}
	f.floor.saved = floor
	return nil
}
