// Package config reads what Dragoman is told to do: its own format in YAML or
// JSON, and the files in which other programs keep their MCP servers, as they are.
//
// [Load] reads one or several files, replaces references such as ${VAR}, checks
// everything, and reports all that is wrong at once, each with its place. Nothing
// is started and nothing is dialled.
//
// The structs are the one list of keys. Their tags say how a key is spelled, what
// it means and what it may be; decoding, the errors about unknown keys, [Schema]
// and [Reference] all read them.
package config
