package replay

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/pattern"
)

// An Asker is asked what the client of a recording asked; a client.Client is one.
type Asker interface {
	Request(ctx context.Context, method string, params any) (json.RawMessage, error)
}

// A Result is what came of a step.
type Result struct {
	Step
	Took        time.Duration
	Differences []Difference
	Err         error // why there is no answer; nil if there is one
}

// Run sends the steps again, and hands what came of each to done, one at a time. With a
// speed of zero, each is sent when the one before is done; else they are sent at their
// times, divided by the speed. Paths that match a pattern of ignore are not compared. It
// returns when all are done, or with the error of ctx.
func (rec *Recording) Run(ctx context.Context, server Asker, speed float64, ignore []string, done func(Result)) error {
	var mu sync.Mutex // of done
	var running sync.WaitGroup
	defer running.Wait()
	began := time.Now()
	for _, step := range rec.Steps {
		if speed > 0 {
			due := time.Duration(float64(step.At.Sub(rec.Steps[0].At)) / speed)
			select {
			case <-time.After(due - time.Since(began)):
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		one := func() {
			r := ask(ctx, server, step, ignore)
			mu.Lock()
			defer mu.Unlock()
			done(r)
		}
		if speed > 0 {
			running.Go(one) // ends with the request
		} else {
			one()
		}
	}
	return nil
}

// freshness is how long a result may be kept, which is less each time it is asked for.
const freshness = "result.ttlMs"

// ask sends one step and compares the answer.
func ask(ctx context.Context, server Asker, step Step, ignore []string) Result {
	r := Result{Step: step}
	began := time.Now()
	var params any
	if step.Params != nil {
		params = step.Params
	}
	result, err := server.Request(ctx, step.Method, params)
	r.Took = time.Since(began)
	got := Outcome{Result: result}
	if failed, ok := errors.AsType[*dragoman.Error](err); ok {
		text, _ := json.Marshal(failed) // it was JSON
		got = Outcome{Error: text}
	} else if err != nil {
		r.Err = err
		return r
	}
	if step.Want == nil {
		return r
	}
	for _, d := range compare(step.Want, &got) {
		if d.Path != freshness && !pattern.Any(ignore, d.Path) {
			r.Differences = append(r.Differences, d)
		}
	}
	return r
}
