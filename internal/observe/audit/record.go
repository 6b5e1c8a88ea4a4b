package audit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/redact"
)

// A Record is an event as it stands in a file.
type Record struct {
	Seq  uint64 `json:"seq"` // counts from 1, over all files
	When string `json:"time"`
	Event
	Micros int64 `json:"micros,omitempty"` // its duration

	Prev string `json:"prev"` // the hash of the record before; zeros in the first of all
	Hash string `json:"hash"` // of the line up to here
}

// timeFormat is RFC 3339 in UTC, with microseconds.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// maxLine is longer than any line: the longest texts with every byte as an escape.
const maxLine = 64 << 10

// A chain is where the records have come to.
type chain struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"` // empty means that there is none yet
}

// genesis is the hash before the first record.
var genesis = strings.Repeat("0", 2*sha256.Size)

func (c *chain) prev() string {
	if c.Hash == "" {
		return genesis
	}
	return c.Hash
}

// The end of each line: the two hashes.
const (
	prevKey, hashKey = `,"prev":"`, `,"hash":"`

	hashLength = 2 * sha256.Size
	hashEnd    = len(hashKey) + hashLength + len(`"}`)
	prevEnd    = len(prevKey) + hashLength + len(`"`)
)

// append appends an event as the next line, and moves on to it.
func (c *chain) append(dst []byte, e *Event) []byte {
	start := len(dst)
	c.Seq++
	dst = strconv.AppendUint(append(dst, `{"seq":`...), c.Seq, 10)
	dst = e.Time.UTC().AppendFormat(append(dst, `,"time":"`...), timeFormat)
	dst = e.appendTo(append(dst, '"'))
	dst = append(append(append(dst, prevKey...), c.prev()...), '"')
	sum := sha256.Sum256(dst[start:])
	c.Hash = hex.EncodeToString(sum[:])
	return append(append(append(dst, hashKey...), c.Hash...), '"', '}', '\n')
}

// appendTo appends the members of an event, as encoding/json would by the tags of Record, and
// with what cannot be seen as escapes.
func (e *Event) appendTo(dst []byte) []byte {
	dst = appendText(append(dst, `,"event":`...), e.Kind)
	dst = appendMember(dst, `,"request":`, e.Request)
	dst = appendMember(dst, `,"principal":`, e.Principal)
	dst = appendMember(dst, `,"credential":`, e.Credential)
	dst = appendMember(dst, `,"address":`, e.Address)
	dst = appendMember(dst, `,"client":`, e.Client)
	dst = appendMember(dst, `,"session":`, e.Session)
	dst = appendMember(dst, `,"transport":`, e.Transport)
	dst = appendMember(dst, `,"server":`, e.Server)
	dst = appendMember(dst, `,"method":`, e.Method)
	dst = appendMember(dst, `,"name":`, e.Name)
	dst = appendMember(dst, `,"outcome":`, e.Outcome)
	dst = appendNumber(dst, `,"code":`, int64(e.Code))
	dst = appendMember(dst, `,"rule":`, e.Rule)
	dst = appendMember(dst, `,"reason":`, e.Reason)
	dst = appendNumber(dst, `,"in":`, int64(e.In))
	dst = appendNumber(dst, `,"out":`, int64(e.Out))
	dst = appendMember(dst, `,"arguments":`, e.Arguments)
	dst = appendNumber(dst, `,"count":`, int64(e.Count))
	dst = appendMember(dst, `,"digest":`, e.Digest)
	dst = appendNumber(dst, `,"oldest":`, int64(e.Oldest))
	return appendNumber(dst, `,"micros":`, e.Duration.Microseconds())
}

func appendMember(dst []byte, key, value string) []byte {
	if value == "" {
		return dst
	}
	return appendText(append(dst, key...), value)
}

func appendNumber(dst []byte, key string, n int64) []byte {
	if n == 0 {
		return dst
	}
	return strconv.AppendInt(append(dst, key...), n, 10)
}

// appendText appends a string.
func appendText(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(s) // strings always encode
			return redact.AppendEscaped(dst, quoted)
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}

// Reasons why a line is no record.
var (
	errNoRecord = errors.New("it is no record")
	errChanged  = errors.New("it was changed: its hash does not fit")
)

// parse reads a line without its end.
func parse(line []byte) (*Record, error) {
	n := len(line) - hashEnd
	if n < prevEnd || !bytes.HasPrefix(line[n:], []byte(hashKey)) || !bytes.HasSuffix(line, []byte(`"}`)) ||
		!bytes.HasPrefix(line[n-prevEnd:], []byte(prevKey)) || line[n-1] != '"' {
		return nil, errNoRecord
	}
	sum := sha256.Sum256(line[:n])
	if hex.EncodeToString(sum[:]) != string(line[n+len(hashKey):len(line)-len(`"}`)]) {
		return nil, errChanged
	}
	var r struct {
		Record
		// Files written before version 0.1.0 have these names.
		Proof string `json:"proof"`
		Door  string `json:"door"`
	}
	var err error
	if json.Unmarshal(line, &r) != nil || r.Seq == 0 || r.Kind == "" {
		return nil, errNoRecord
	}
	if r.Time, err = time.Parse(time.RFC3339Nano, r.When); err != nil {
		return nil, errNoRecord
	}
	// Of two members with one name it is the last that was checked.
	if r.Prev != string(line[n-prevEnd+len(prevKey):n-1]) {
		return nil, errNoRecord
	}
	r.Duration = time.Duration(r.Micros) * time.Microsecond
	r.Credential, r.Transport = cmp.Or(r.Credential, r.Proof), cmp.Or(r.Transport, r.Door)
	return &r.Record, nil
}

// at returns where the chain is with a record.
func (r *Record) at() chain { return chain{r.Seq, r.Hash} }
