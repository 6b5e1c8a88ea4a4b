package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A Size is a number of bytes.
type Size int64

var (
	plainNumber = regexp.MustCompile(`^[+-]?\d+(?:\.\d+)?$`)
	numberWord  = regexp.MustCompile(`^([+-]?\d+(?:\.\d+)?)\s*([A-Za-zµ]+)$`)
)

// timeWords are units as people write them.
var timeWords = map[string]string{
	"msec": "ms", "msecs": "ms", "millis": "ms", "millisecond": "ms", "milliseconds": "ms",
	"s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s",
	"m": "m", "min": "m", "mins": "m", "minute": "m", "minutes": "m",
	"h": "h", "hr": "h", "hrs": "h", "hour": "h", "hours": "h", "ms": "ms",
}

// dayUnits are units that become hours.
var dayUnits = map[string]float64{"d": 24, "day": 24, "days": 24, "w": 168, "week": 168, "weeks": 168}

// parseDuration reads "30s" or "1m30s". If it cannot, it says what to write.
func parseDuration(s string) (d time.Duration, message, hint string) {
	d, err := time.ParseDuration(s)
	switch {
	case plainNumber.MatchString(s):
		n, _ := strconv.ParseFloat(s, 64)
		hint = fmt.Sprintf("write %ss or %sms", s, s)
		if n >= 1000 && math.Mod(n, 1000) == 0 {
			hint = fmt.Sprintf("write %gs or %sms", n/1000, s)
		}
		return 0, "has no unit", hint
	case err != nil:
		hint = "write a number and a unit, as in 500ms, 30s, 5m or 1h30m"
		if m := numberWord.FindStringSubmatch(s); m != nil {
			if unit := timeWords[strings.ToLower(m[2])]; unit != "" {
				hint = fmt.Sprintf("write %s%s", m[1], unit)
			} else if hours := dayUnits[strings.ToLower(m[2])]; hours > 0 {
				n, _ := strconv.ParseFloat(m[1], 64)
				hint = fmt.Sprintf("write %gh", n*hours)
			}
		}
		return 0, "is not a time", hint
	case d < 0:
		return 0, "is negative", ""
	}
	return d, "", ""
}

var sizeUnits = map[string]float64{
	"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
}

// sizeWords are units as people write them.
var sizeWords = map[string]string{
	"b": "B", "bytes": "B", "byte": "B", "k": "KiB", "kib": "KiB", "kb": "KB", "ki": "KiB",
	"m": "MiB", "mib": "MiB", "mb": "MB", "mi": "MiB", "g": "GiB", "gib": "GiB", "gb": "GB", "gi": "GiB",
}

// parseSize reads "16MiB". If it cannot, it says what to write.
func parseSize(s string) (size Size, message, hint string) {
	if plainNumber.MatchString(s) {
		return 0, "has no unit", fmt.Sprintf("write %sB, or use KiB, MiB or GiB", s)
	}
	m := numberWord.FindStringSubmatch(s)
	if m == nil {
		return 0, "is not a size", "write a number and a unit, as in 512KiB or 16MiB"
	}
	unit, ok := sizeUnits[m[2]]
	if !ok {
		hint = "write a number and a unit, as in 512KiB or 16MiB"
		if word := sizeWords[strings.ToLower(m[2])]; word != "" {
			hint = fmt.Sprintf("write %s%s", m[1], word)
		}
		return 0, "is not a size", hint
	}
	n, _ := strconv.ParseFloat(m[1], 64)
	switch n *= unit; {
	case n < 0:
		return 0, "is negative", ""
	case n > math.MaxInt64/2:
		return 0, "is too large", ""
	}
	return Size(n), "", ""
}

// transportWords are the spellings of transports. Letters in upper case, _ and -
// do not matter.
var transportWords = map[string]Transport{
	"auto": Auto, "remote": Auto,
	"stdio": Stdio, "local": Stdio, "command": Stdio,
	"http": HTTP, "https": HTTP, "streamable": HTTP, "streamablehttp": HTTP, "httpstream": HTTP, "stream": HTTP,
	"sse": SSE, "http+sse": SSE, "httpsse": SSE,
	"ws": WS, "wss": WS, "websocket": WS, "tcp": TCP, "unix": Unix,
}

// parseTransport knows every spelling of a transport.
func parseTransport(s string) (Transport, bool) {
	t, ok := transportWords[plain(s)]
	return t, ok
}
