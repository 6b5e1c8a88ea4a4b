package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"strings"
)

// A file holds a mark, a checksum of the rest, the length of the key, the key
// and the record.
const (
	mark    = "DGS1"
	maxSeal = 64 << 10 // of a file besides its record
)

// Ends of the names of files that are no records.
const (
	unfinished = ".new"
	damaged    = ".damaged"
)

var checksums = crc32.MakeTable(crc32.Castagnoli)

// seal returns the content of the file of a record.
func seal(key string, record []byte) []byte {
	text := make([]byte, 0, len(mark)+8+len(key)+len(record))
	text = append(text, mark...)
	text = append(text, 0, 0, 0, 0)
	text = binary.BigEndian.AppendUint32(text, uint32(len(key))) // #nosec G115 -- keys are short
	text = append(text, key...)
	text = append(text, record...)
	binary.BigEndian.PutUint32(text[len(mark):], crc32.Checksum(text[len(mark)+4:], checksums))
	return text
}

// unseal returns the record that the file of a key holds.
func unseal(key string, text []byte) ([]byte, error) {
	const head = len(mark) + 8
	if len(text) < head || string(text[:len(mark)]) != mark {
		return nil, errors.New("store: the file is no record")
	}
	if binary.BigEndian.Uint32(text[len(mark):]) != crc32.Checksum(text[len(mark)+4:], checksums) {
		return nil, errors.New("store: the checksum does not fit")
	}
	n := int(binary.BigEndian.Uint32(text[len(mark)+4:]))
	if n > len(text)-head || string(text[head:head+n]) != key {
		return nil, errors.New("store: the record is of another key")
	}
	return text[head+n:], nil
}

// folder is the name of the folder of a kind: the kind itself as far as it is
// plain, and different for different kinds.
func folder(kind string) string {
	plain := strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
	if plain && kind != "" && len(kind) <= 64 {
		return kind
	}
	sum := sha256.Sum256([]byte(kind))
	return "_" + hex.EncodeToString(sum[:16])
}

// file is the name of the file of a record. Keys may hold anything, and on some
// systems names differ in nothing but case, so it is made of a digest.
func file(kind, key string) string {
	sum := sha256.Sum256([]byte(key))
	return folder(kind) + "/" + hex.EncodeToString(sum[:16])
}
