// Package soak runs many clients against many servers for a long time, while
// servers are killed, links are cut and the configuration is reloaded. It has tests
// only, which need a duration:
//
//	go test ./tests/soak -soak 10m -timeout 20m
package soak
