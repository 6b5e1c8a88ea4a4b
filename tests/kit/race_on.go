//go:build race

package kit

const race = true
