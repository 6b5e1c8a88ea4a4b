package term

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net"
	"os"
	"reflect"
	"strings"
)

// reasonOf returns the text of an error in which failures of the system and of JSON are described in the
// words of a user, not of Go's standard library: "nofile: no such file or directory" for "open nofile: …".
func reasonOf(err error) string {
	text := err.Error()
	for e := range chain(err) {
		own := ""
		switch e := e.(type) { //nolint:errorlint // chain returns each error by itself
		case *fs.PathError:
			own = e.Path + ": " + e.Err.Error()
		case *os.LinkError:
			own = e.New + ": " + e.Err.Error()
		case *os.SyscallError:
			own = e.Err.Error()
		case *net.OpError:
			if own = e.Err.Error(); e.Op == "dial" && e.Addr != nil {
				own = e.Addr.String() + ": " + own
			}
		case *net.AddrError:
			if own = e.Err + ": " + e.Addr; e.Err == "invalid port" {
				own = "invalid port " + e.Addr + ", expected 0 to 65535"
			}
		case *json.UnmarshalTypeError:
			own = unmarshalReason(e)
		default:
			continue
		}
		text = strings.Replace(text, e.Error(), own, 1)
	}
	return text
}

// unmarshalReason says which member of a JSON text has the wrong type.
func unmarshalReason(e *json.UnmarshalTypeError) string {
	wanted := map[reflect.Kind]string{
		reflect.String: "a string", reflect.Bool: "true or false", reflect.Slice: "a list", reflect.Array: "a list",
		reflect.Map: "an object", reflect.Struct: "an object", reflect.Pointer: "an object",
	}[e.Type.Kind()]
	if wanted == "" {
		wanted = "a number"
	}
	if e.Field == "" {
		return fmt.Sprintf("expected %s, not %s (byte %d)", wanted, e.Value, e.Offset)
	}
	return fmt.Sprintf("%s: expected %s, not %s", e.Field, wanted, e.Value)
}

// chain returns an error and all that it wraps, the outermost first.
func chain(err error) iter.Seq[error] {
	return func(yield func(error) bool) { walk(err, yield) }
}

func walk(err error, yield func(error) bool) bool {
	if err == nil {
		return true
	}
	if !yield(err) {
		return false
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // each error of the chain is looked at
		for _, one := range several.Unwrap() {
			if !walk(one, yield) {
				return false
			}
		}
		return true
	}
	return walk(errors.Unwrap(err), yield)
}
