package flags

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// AddDuration adds a flag that holds a duration. A number without a unit is in seconds.
func AddDuration(f *pflag.FlagSet, d *time.Duration, name, shorthand string, value time.Duration, usage string) {
	*d = value
	f.VarP(&duration{value: d}, name, shorthand, usage)
}

// addPositive adds a flag that holds a duration above zero. The usage names the default if that is
// zero.
func addPositive(f *pflag.FlagSet, d *time.Duration, name, usage string) {
	f.Var(&duration{value: d, positive: true}, name, usage)
}

// A duration is the value of a flag: a number with its unit, or a number of seconds.
type duration struct {
	value    *time.Duration
	positive bool // zero is refused
}

// Set implements pflag.Value.
func (d *duration) Set(text string) error {
	value, err := time.ParseDuration(text)
	if number, notNumber := strconv.ParseFloat(text, 64); notNumber == nil && number < maxSeconds {
		value, err = time.Duration(number*float64(time.Second)), nil
	}
	switch {
	case err != nil || value < 0:
		return fmt.Errorf("invalid duration %q; write a number of seconds, or one with its unit, such as 30s, 500ms or 5m", text)
	case value == 0 && d.positive:
		return errors.New("a duration above zero is expected")
	}
	*d.value = value
	return nil
}

// maxSeconds is the largest number that is read as seconds: a billion are 31 years.
const maxSeconds = 1e9

// String implements pflag.Value. It is empty for zero, which no usage shows.
func (d *duration) String() string {
	if d.value == nil || *d.value == 0 {
		return ""
	}
	return d.value.String()
}

// Type implements pflag.Value.
func (d *duration) Type() string { return "duration" }
