package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"strings"
)

// A file holds a mark, a checksum of the rest, the revision, the length of the key, the key
// and the record.
const (
	mark    = "DGS2"
	sumAt   = len(mark)
	bodyAt  = sumAt + 4
	keyAt   = bodyAt + 8 + 4
	maxSeal = 64 << 10 // of a file besides its record
)

// Ends of the names of files that are no records.
const (
	unfinished = ".new"
	damaged    = ".damaged"
)

var checksums = crc32.MakeTable(crc32.Castagnoli)

// seal returns the content of the file of a record.
func seal(key string, revision uint64, record []byte) []byte {
	text := make([]byte, bodyAt, keyAt+len(key)+len(record))
	copy(text, mark)
	text = binary.BigEndian.AppendUint64(text, revision)
	text = binary.BigEndian.AppendUint32(text, uint32(len(key))) // #nosec G115 -- keys are short
	text = append(text, key...)
	text = append(text, record...)
	binary.BigEndian.PutUint32(text[sumAt:], crc32.Checksum(text[bodyAt:], checksums))
	return text
}

// unseal returns the record that the file of a key holds.
func unseal(key string, text []byte) (record []byte, revision uint64, err error) {
	if len(text) < keyAt || string(text[:sumAt]) != mark {
		return nil, 0, errors.New("store: the file is no record")
	}
	if binary.BigEndian.Uint32(text[sumAt:]) != crc32.Checksum(text[bodyAt:], checksums) {
		return nil, 0, errors.New("store: the checksum does not fit")
	}
	n := int(binary.BigEndian.Uint32(text[keyAt-4:]))
	if n > len(text)-keyAt || string(text[keyAt:keyAt+n]) != key {
		return nil, 0, errors.New("store: the record is of another key")
	}
	return text[keyAt+n:], binary.BigEndian.Uint64(text[bodyAt:]), nil
}

// folderOf is the name of the folder of a key: its kind as far as that is
// plain, and different for different kinds.
func folderOf(key string) string {
	kind, _, ok := strings.Cut(key, "/")
	plain := strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
	if ok && plain && kind != "" && len(kind) <= 64 {
		return kind
	}
	if !ok {
		kind = ""
	}
	sum := sha256.Sum256([]byte(kind))
	return "_" + hex.EncodeToString(sum[:16])
}

// fileOf is the name of the file of a record. Keys may hold anything, and on some
// systems names differ in nothing but case, so it is made of a digest.
func fileOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return folderOf(key) + "/" + hex.EncodeToString(sum[:16])
}
