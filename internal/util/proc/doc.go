// Package proc tells how much memory processes have, as far as the system says it.
package proc
