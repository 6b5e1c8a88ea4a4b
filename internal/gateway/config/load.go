package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config/hosts"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config/syntax"
)

// How much is read.
const (
	MaxFile      = 4 << 20         // bytes of a file
	MaxNodes     = syntax.MaxNodes // values of a file, after its aliases
	MaxDepth     = syntax.MaxDepth // how deep they may be nested
	MaxValueFile = 1 << 20         // bytes of a file that ${file:PATH} or envFile names
	MaxName      = 64              // characters of the name of a server or a group
)

// names are the files that Find looks for.
var names = []string{"dragoman.yaml", "dragoman.yml", "dragoman.json", ".mcp.json", "mcp.json"}

// Find returns the configuration of a directory: the first of dragoman.yaml,
// dragoman.yml, dragoman.json, .mcp.json and mcp.json that is a file.
func Find(dir string) (path string, ok bool) {
	for _, name := range names {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, true
		}
	}
	return "", false
}

// Options are how Load finds what files refer to. Nil and the zero value mean our
// own environment.
type Options struct {
	// LookupEnv returns variables of the environment. If nil, it is os.LookupEnv.
	LookupEnv func(name string) (value string, ok bool)
}

// Load reads files and merges them in their order: a later server or group takes
// the place of an earlier one with its name, and so does any other value.
//
// Neither result is ever nil. If the report has errors, the File is what could be
// read; a server with an error is not in it.
func Load(opts *Options, paths ...string) (*File, *Report) {
	l := &loader{
		lookup: os.LookupEnv,
		file:   &File{Servers: map[string]*Server{}, Groups: map[string]*Group{}},
		seen:   map[string]string{}, broken: map[string]bool{},
	}
	if opts != nil && opts.LookupEnv != nil {
		l.lookup = opts.LookupEnv
	}
	for i, path := range paths {
		l.load(path, i)
	}
	l.checkGroups()
	l.checkListen()
	l.checkAuth()
	l.checkAudit()
	l.checkCommands()
	l.checkPrograms()
	l.checkLimits()
	f := l.file
	f.order = f.Names
	l.checkRules()
	for _, name := range f.order {
		if l.broken[name] {
			delete(f.Servers, name)
			f.Broken = append(f.Broken, name)
		}
	}
	f.Names = f.present()
	report := l.log.report()
	for _, name := range f.Broken {
		f.faults = append(f.faults, report.Of(name))
	}
	return l.file, report
}

// A loader reads the files of one Load.
type loader struct {
	lookup  func(name string) (string, bool)
	file    *File
	log     log
	readers []*reader         // of the files that could be parsed, in their order
	seen    map[string]string // where each server stands, also a broken one
	broken  map[string]bool   // servers with an error
}

// A reader reads one file.
type reader struct {
	*loader
	src    *syntax.Source
	in     *hosts.Translation // what the file says, in our own spelling
	server string             // the one that is being read
}

// load reads one file into what there is.
func (l *loader) load(path string, order int) {
	abs, err := filepath.Abs(path)
	if err != nil {
		abs = path
	}
	src := &syntax.Source{Name: path, Path: abs, Order: order, Report: l.log.add}
	data, err := l.readFile(abs, MaxFile)
	if err != nil {
		src.Fail(syntax.Position{}, fmt.Sprintf("cannot be read: %v", err), "")
		return
	}
	src.Parse(data)
	if src.Root == nil {
		return
	}
	if src.Root.Kind != syntax.Table {
		src.Fail(src.Root.At, fmt.Sprintf("a configuration is a mapping of keys, not %s", src.Root.Kind), "")
		return
	}
	r := &reader{loader: l, src: src, in: hosts.Translate(src, Keys())}
	l.readers = append(l.readers, r)
	next := &File{Servers: map[string]*Server{}}
	r.readRoot(next)
	next.Names = slices.DeleteFunc(next.Names, func(name string) bool { return l.file.Servers[name] != nil })
	next.Names = slices.Concat(l.file.Names, next.Names)
	overlay(reflect.ValueOf(l.file).Elem(), reflect.ValueOf(next).Elem())
}

// Keys returns the keys of our own format.
func Keys() hosts.Keys {
	return hosts.Keys{File: fileObject.names(), Server: serverObject.names(), Name: goodName()}
}

// overlay puts what is not zero in place of what there is, field by field and name
// by name.
func overlay(into, from reflect.Value) {
	switch {
	case into.Kind() == reflect.Struct:
		for i := range into.NumField() {
			overlay(into.Field(i), from.Field(i))
		}
	case into.Kind() == reflect.Map:
		for it := from.MapRange(); it.Next(); {
			into.SetMapIndex(it.Key(), it.Value())
		}
	case !from.IsZero():
		into.Set(from)
	}
}

// fail and warn note something about the file that is being read.
func (r *reader) fail(at syntax.Position, message, hint string) {
	if r.server != "" {
		r.broken[r.server] = true
	}
	r.log.add(syntax.Problem{Source: r.src, At: at, About: r.server, Message: message, Hint: hint})
}

func (r *reader) warn(at syntax.Position, message, hint string) {
	r.log.add(syntax.Problem{Source: r.src, At: at, About: r.server, Message: message, Hint: hint, Warning: true})
}
