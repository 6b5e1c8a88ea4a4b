package everything

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
)

// page returns the result of a list: the page that the request's cursor points
// to, under the name of its kind, and the cursor of the next page if there is
// one.
func page[T any](c *call, kind string, all []T) (any, error) {
	start := 0
	if text := c.req.Get("cursor"); text != nil {
		var ok bool
		if start, ok = parseCursor(kind, text); !ok || start > len(all) {
			return nil, invalid("cursor %s is not one of this list; begin without a cursor", text)
		}
	}
	end := len(all)
	if size := c.server.opts.PageSize; size > 0 && end-start > size {
		end = start + size
	}
	result := object{kind: append([]T{}, all[start:end]...)}
	if end < len(all) {
		result["nextCursor"] = cursor(kind, end)
	}
	return result, nil
}

// A cursor is the number of entries before the page, with the kind of list, so
// that it does not pass for that of another.
func cursor(kind string, at int) string {
	return base64.RawURLEncoding.EncodeToString([]byte(kind + " " + strconv.Itoa(at)))
}

func parseCursor(kind string, text json.RawMessage) (at int, ok bool) {
	var s string
	if json.Unmarshal(text, &s) != nil {
		return 0, false
	}
	if s == "" {
		return 0, true // a cursor like any other: that of the first page
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return 0, false
	}
	number, ok := strings.CutPrefix(string(b), kind+" ")
	if !ok {
		return 0, false
	}
	at, err = strconv.Atoi(number)
	return at, err == nil && at > 0
}
