package config

import (
	"reflect"
	"strings"
	"time"
)

// A key is one row of the table of keys: a field of a struct and what its tags say.
type key struct {
	name string
	doc  string
	def  string       // the default, as it is written
	enum []string     // all that it may be
	none string       // what the value "none" means, if it may be that
	only string       // "command" or "url" if it means nothing for the other
	one  bool         // a list of one may be given without the list
	typ  reflect.Type // of the field

	index int // of the field
}

// An object is a struct whose fields are keys.
type object struct {
	keys  []key
	short int // index in keys of the one that may stand for the whole; -1 if none
}

// Types with a spelling of their own.
var (
	durationType  = reflect.TypeFor[time.Duration]()
	sizeType      = reflect.TypeFor[Size]()
	transportType = reflect.TypeFor[Transport]()
)

// objectOf reads the keys of a struct.
func objectOf(t reflect.Type) object {
	o := object{short: -1}
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("key")
		if name == "" {
			continue
		}
		k := key{
			name: name, doc: f.Tag.Get("doc"), def: f.Tag.Get("default"),
			none: f.Tag.Get("none"), only: f.Tag.Get("only"), one: f.Tag.Get("one") != "",
			typ: f.Type, index: i,
		}
		if enum := f.Tag.Get("enum"); enum != "" {
			k.enum = strings.Split(enum, "|")
		}
		if f.Tag.Get("short") != "" {
			o.short = len(o.keys)
		}
		o.keys = append(o.keys, k)
	}
	return o
}

func (o *object) find(name string) (key, bool) {
	for _, k := range o.keys {
		if k.name == name {
			return k, true
		}
	}
	return key{}, false
}

func (o *object) names() []string {
	var list []string
	for _, k := range o.keys {
		list = append(list, k.name)
	}
	return list
}

// The objects of a file and of a server.
var (
	fileObject   = objectOf(reflect.TypeFor[File]())
	serverObject = objectOf(reflect.TypeFor[Server]())
)

// under returns the struct that a field leads to, through pointers, lists and maps,
// or nil.
func under(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() == reflect.Struct {
		return t
	}
	return nil
}
