package main

import (
	"fmt"
	"strconv"
)

// debugVariable turns on debug output where no flag says otherwise.
const debugVariable = "DRAGOMAN_DEBUG"

// decideDebug decides once, at the start, whether to log every step: by the
// flag if it is given, else by the environment, else by the configuration.
func decideDebug(flag *bool, env string, config *bool) (bool, error) {
	switch {
	case flag != nil:
		return *flag, nil
	case env != "":
		on, err := strconv.ParseBool(env)
		if err != nil {
			return false, fmt.Errorf("%s is %q: use 1 or 0", debugVariable, env)
		}
		return on, nil
	case config != nil:
		return *config, nil
	}
	return false, nil
}
