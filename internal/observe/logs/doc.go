// Package logs writes log records as lines of key=value, and logs the messages of
// connections, one record each, in their order and without secrets.
package logs
