package eventlog_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/dragoman-mcp/dragoman/eventlog"
)

func ExampleMemory() {
	ctx := context.Background()
	log := eventlog.NewMemory(&eventlog.MemoryOptions{MaxEvents: 2})
	for _, event := range []string{"one", "two", "three"} {
		position, _ := log.Append(ctx, "stream", []byte(event))
		fmt.Println(position, event)
	}
	missed, err := log.After(ctx, "stream", 1)
	fmt.Printf("%s %v\n", missed, err)
	_, err = log.After(ctx, "stream", 0)
	fmt.Println(errors.Is(err, eventlog.ErrLost))
	// Output:
	// 1 one
	// 2 two
	// 3 three
	// [two three] <nil>
	// true
}
