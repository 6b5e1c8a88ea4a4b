package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
)

// Options are how Load finds what files refer to. Nil and the zero value mean our
// own environment.
type Options struct {
	// LookupEnv returns variables of the environment. If nil, it is os.LookupEnv.
	LookupEnv func(name string) (value string, ok bool)
}

func (o *Options) lookup(name string) (string, bool) {
	if o == nil || o.LookupEnv == nil {
		return os.LookupEnv(name)
	}
	return o.LookupEnv(name)
}

// Load reads files and merges them in their order: a later server or group takes
// the place of an earlier one with its name, and so does any other value.
//
// Neither result is ever nil. If the report has errors, the File is what could be
// read; a server with an error is not in it.
func Load(opts *Options, paths ...string) (*File, *Report) {
	l := &loader{
		opts: opts, spellings: spellings(),
		file: &File{Servers: map[string]*Server{}, Groups: map[string]*Group{}},
		log:  &log{}, spots: map[string]spot{}, seen: map[string]bool{}, broken: map[string]bool{},
	}
	for i, path := range paths {
		l.load(path, i)
	}
	l.checkGroups()
	l.checkListen()
	f := l.file
	f.order = f.Names
	for _, name := range f.order {
		if l.broken[name] {
			delete(f.Servers, name)
			f.Broken = append(f.Broken, name)
		}
	}
	f.Names = f.present()
	return l.file, l.log.report()
}

// A loader reads the files of one Load.
type loader struct {
	opts      *Options
	spellings map[string]spelling
	file      *File
	log       *log
	spots     map[string]spot // where values stand, by their path in our own format
	seen      map[string]bool // names of all servers, also of the broken ones
	broken    map[string]bool // servers with an error
}

// A spot is where a value of the result comes from.
type spot struct {
	src  *source
	at   place // of the key
	node *node
}

// A reader reads one file.
type reader struct {
	*loader
	src     *source
	host    *host
	inputs  *node           // what a host would ask for
	server  string          // the one that is being read
	here    map[string]spot // where its values stand
	ignored []ignored
	indexOf map[string]int // of ignored, by where and key
}

// load reads one file into what there is.
func (l *loader) load(path string, order int) {
	src := &source{name: path, order: order, log: l.log}
	var err error
	if src.path, err = filepath.Abs(path); err != nil {
		src.path = path
	}
	data, err := l.readFile(src.path, MaxFile)
	if err != nil {
		src.fail(place{}, fmt.Sprintf("cannot be read: %v", err), "")
		return
	}
	src.parse(data)
	if src.root == nil {
		return
	}
	r := &reader{loader: l, src: src, host: ours}
	if src.root.kind != table {
		r.fail(src.root.at, fmt.Sprintf("a configuration is a mapping of keys, not %s", src.root.kind), "")
		return
	}
	next := &File{}
	r.readRoot(next)
	next.State = r.absolute(next.State)
	for i := range next.Listen {
		t := &next.Listen[i].TLS
		t.Cert, t.Key, t.ClientCA = r.absolute(t.Cert), r.absolute(t.Key), r.absolute(t.ClientCA)
	}
	l.merge(next)
	r.nameIgnored()
}

// merge adds what a file says.
func (l *loader) merge(next *File) {
	for _, name := range next.Names {
		if l.file.Servers[name] == nil {
			l.file.Names = append(l.file.Names, name)
		}
		l.file.Servers[name] = next.Servers[name]
	}
	for name, g := range next.Groups {
		l.file.Groups[name] = g
	}
	into, from := reflect.ValueOf(l.file).Elem(), reflect.ValueOf(next).Elem()
	for _, k := range fileObject.keys {
		if v := from.Field(k.index); v.Kind() != reflect.Map {
			overlay(into.Field(k.index), v)
		}
	}
}

// overlay puts what is not zero in place of what there is, struct by struct.
func overlay(into, from reflect.Value) {
	if into.Kind() == reflect.Struct {
		for i := range into.NumField() {
			overlay(into.Field(i), from.Field(i))
		}
		return
	}
	if !from.IsZero() {
		into.Set(from)
	}
}

// fail and warn note something about the file that is being read.
func (r *reader) fail(at place, message, hint string) { r.note(at, message, hint, true) }
func (r *reader) warn(at place, message, hint string) { r.note(at, message, hint, false) }

func (r *reader) note(at place, message, hint string, bad bool) {
	if r.server != "" && bad {
		r.broken[r.server] = true
	}
	r.log.add(finding{src: r.src, at: at, server: r.server, message: message, hint: hint, bad: bad})
}

// mark remembers where a value stands: that of a server until it has been read, that
// of anything else until all files have been merged.
func (r *reader) mark(path string, at place, n *node) {
	if r.server != "" {
		r.here[path] = spot{r.src, at, n}
	} else {
		r.spots[path] = spot{r.src, at, n}
	}
}
