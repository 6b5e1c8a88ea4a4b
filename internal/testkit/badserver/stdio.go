package badserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// Defects of processes.
const (
	TextOnStdout   Defect = "text-on-stdout"   // a greeting is written there
	LateText       Defect = "late-text"        // a line is written there at each request
	Exits          Defect = "exits"            // with status 3, before anything is answered
	DiesAtEOF      Defect = "dies-at-eof"      // of a signal, when standard input ends
	IgnoresEOF     Defect = "ignores-eof"      // it continues when standard input ends
	Framed         Defect = "framed"           // it writes Content-Length frames
	FramedOnly     Defect = "framed-only"      // it reads nothing else
	PrettyPrinted  Defect = "pretty-printed"   // messages go over several lines
	DiesOfGarbage  Defect = "dies-of-garbage"  // what is no JSON ends it
	DiesOfBlank    Defect = "dies-of-blank"    // an empty line does
	FramesOnStderr Defect = "frames-on-stderr" // answers are written there, too
	SpeaksFirst    Defect = "speaks-first"     // it asks before it is greeted
	ReadsShort     Defect = "reads-short"      // a line of more than 4 KiB is not read to its end
	NotUTF8        Defect = "not-utf8"         // answers have other bytes
	DiesOfBatch    Defect = "dies-of-batch"    // an array of messages ends it
	DiesOfCancel   Defect = "dies-of-cancel"   // a cancellation does
	OneHandshake   Defect = "one-handshake"    // a second initialize is refused, which is none
	DiesOfUnknown  Defect = "dies-of-unknown"  // a method that it does not know does, and it speaks the legacy era only
	Alone          Defect = "alone"            // it ends at once beside another process of its folder, which is none
	DiesOfDiscover Defect = "dies-of-discover" // server/discover ends it, which is none of a legacy server
)

// envName is the variable that makes a process the server, and envFolder that of the folder in which
// its processes leave marks.
const (
	envName   = "DRAGOMAN_BAD_SERVER"
	envFolder = "DRAGOMAN_BAD_SERVER_FOLDER"
)

// Env returns the environment of a process that is a server with a defect. With the race detector it
// would sleep for a second at its end.
func Env(d Defect) []string {
	return []string{envName + "=" + string(d) + ".", "GORACE=atexit_sleep_ms=0"}
}

// Main is the server, if the process was started as that. Then it does not return.
func Main() {
	d, ok := os.LookupEnv(envName)
	if !ok {
		return
	}
	os.Exit(serveProcess(Defect(strings.TrimSuffix(d, ".")), os.Getenv(envFolder)))
}

// serveProcess is a server that leaves marks in a folder, if one is named.
func serveProcess(d Defect, folder string) int {
	var in io.Reader = os.Stdin
	if folder != "" {
		journal, err := os.OpenFile(filepath.Join(folder, "journal"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		fmt.Fprint(journal, "+")
		defer fmt.Fprint(journal, "-")
		in = &firstRead{Reader: in, tell: func() { fmt.Fprint(journal, "m") }}
	}
	if d == Alone {
		lock := filepath.Join(folder, "lock")
		f, err := os.OpenFile(lock, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return 1
		}
		defer os.Remove(lock)
		defer f.Close()
	}
	return serve(d, in, os.Stdout, os.Stderr)
}

// A firstRead tells when something is read for the first time.
type firstRead struct {
	io.Reader
	tell func()
}

func (r *firstRead) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if n > 0 && r.tell != nil {
		r.tell()
		r.tell = nil
	}
	return n, err
}

// Serve is the server for whoever connects, until the listener is closed. It is for defects that
// are none of a process.
func Serve(l net.Listener, d Defect) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() { // until the client closes the connection
			defer conn.Close()
			serve(d, conn, conn, io.Discard)
		}()
	}
}

// serve answers until the input ends, and returns the status of the process.
func serve(d Defect, in io.Reader, out, log io.Writer) int {
	s := newServer(d)
	fmt.Fprintln(log, "bad server: ready")
	switch d {
	case Exits:
		fmt.Fprintln(log, "bad server: BAD_TOKEN is not set")
		return 3
	case TextOnStdout:
		fmt.Fprintln(out, "Welcome to the server!")
	case SpeaksFirst:
		fmt.Fprintln(out, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
	}
	r := bufio.NewReader(in)
	handshakes := 0
	for {
		text, err := s.read(r)
		if err != nil {
			break
		}
		blank := len(bytes.TrimSpace(text)) == 0
		if d == DiesOfBlank && blank || d == DiesOfGarbage && !blank && !json.Valid(text) {
			return 1
		}
		if blank {
			continue
		}
		if id := handshakeID(text); id != nil {
			if handshakes++; handshakes > 1 && d == OneHandshake {
				fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"initialized already"}}`+"\n", id)
				continue
			}
		}
		if d == DiesOfUnknown && bytes.Contains(text, []byte("dragoman/unknown")) {
			return 1
		}
		if d == DiesOfDiscover && bytes.Contains(text, []byte(protocol.MethodDiscover)) || d == DiesOfBatch && text[0] == '[' || d == DiesOfCancel && bytes.Contains(text, []byte(protocol.NoteCancelled)) {
			return 1
		}
		if d == LateText {
			fmt.Fprintln(out, "handling a request")
		}
		if answer := s.answer(text); answer != nil {
			s.print(out, log, answer)
		}
	}
	switch d {
	case IgnoresEOF:
		hang()
	case DiesAtEOF:
		self, _ := os.FindProcess(os.Getpid()) // it is there
		_ = self.Kill()
		hang()
	}
	return 0
}

// handshakeID returns the id of a request that is initialize; nil if the text is none.
func handshakeID(text []byte) json.RawMessage {
	var request struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal(text, &request) != nil || request.Method != protocol.MethodInitialize {
		return nil
	}
	return request.ID
}

// hang waits until the process is killed. It waits for a timer: a program that waits for
// nothing is ended by the runtime as one that is stuck.
func hang() {
	for {
		time.Sleep(time.Hour)
	}
}

// read returns the next message.
func (s *server) read(r *bufio.Reader) ([]byte, error) {
	if s.Defect == ReadsShort {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			hang()
		}
		return line, err
	}
	line, err := r.ReadBytes('\n')
	if s.Defect != FramedOnly {
		return line, err
	}
	for err == nil {
		if value, ok := strings.CutPrefix(string(line), "Content-Length: "); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(value)) // else nothing follows
			body := make([]byte, n)
			_, _ = r.ReadBytes('\n') // the empty line
			_, err = io.ReadFull(r, body)
			return body, err
		}
		line, err = r.ReadBytes('\n')
	}
	return nil, err
}

// print writes an answer.
func (s *server) print(out, log io.Writer, answer []byte) {
	switch s.Defect {
	case Framed, FramedOnly:
		fmt.Fprintf(out, "Content-Length: %d\r\n\r\n%s", len(answer), answer)
		return
	case PrettyPrinted:
		var b bytes.Buffer
		_ = json.Indent(&b, answer, "", "  ") // it is JSON
		answer = b.Bytes()
	case FramesOnStderr:
		fmt.Fprintf(log, "%s\n", compact(answer))
	case NotUTF8:
		answer = bytes.Replace(answer, []byte("Says what"), []byte("Says \xff what"), 1)
	}
	fmt.Fprintf(out, "%s\n", answer)
}
