package streamable

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

type contextKey struct{}

// contexts are the ways in which a callContext may depend on its parent.
func contexts(t *testing.T, f func(t *testing.T, c *callContext, end context.CancelCauseFunc)) {
	for name, c := range map[string]*callContext{
		"alone": {}, "cancelled": {cancelledWithParent: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent, end := context.WithCancelCause(context.WithValue(t.Context(), contextKey{}, "value"))
				defer end(nil)
				c.parent = parent
				f(t, c, func(cause error) {
					end(cause)
					if c.cancelledWithParent {
						c.cancel(cause)
					}
				})
			})
		})
	}
}

var errTest = errors.New("test")

func TestContextOfARequestEndsWithItsParent(t *testing.T) {
	contexts(t, func(t *testing.T, c *callContext, end context.CancelCauseFunc) {
		child, cancel := context.WithTimeout(c, time.Hour)
		defer cancel()
		if c.Err() != nil || child.Err() != nil || context.Cause(c) != nil {
			t.Fatalf("it begins with %v, %v", c.Err(), context.Cause(c))
		}
		if c.Value(contextKey{}) != "value" || child.Value(contextKey{}) != "value" {
			t.Error("it lacks its parent's value")
		}
		called := false
		context.AfterFunc(c, func() { called = true })
		stopped := context.AfterFunc(c, func() { t.Error("called what was stopped") })
		if !stopped() {
			t.Error("stopped too late")
		}
		end(errTest)
		<-c.Done()
		<-child.Done()
		synctest.Wait()
		for _, ctx := range []context.Context{c, child} {
			if !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(context.Cause(ctx), errTest) {
				t.Errorf("it has ended with %v, because of %v", ctx.Err(), context.Cause(ctx))
			}
		}
		if !called {
			t.Error("AfterFunc was not called")
		}
		late, cancel := context.WithCancel(c)
		defer cancel()
		if !errors.Is(context.Cause(late), errTest) || c.Value(contextKey{}) != "value" {
			t.Errorf("what is made of it afterwards has ended because of %v", context.Cause(late))
		}
	})
}

func TestContextOfARequestKnowsAtOnceThatItsParentHasEnded(t *testing.T) {
	contexts(t, func(t *testing.T, c *callContext, end context.CancelCauseFunc) {
		c.reason = errTest
		end(errors.New("another"))
		if c.Err() == nil {
			t.Error("it continues")
		}
		if cause := context.Cause(c); c.cancelledWithParent == errors.Is(cause, errTest) {
			t.Errorf("it has ended because of %v", cause)
		}
		<-c.Done()
	})
}

func TestContextOfARequestEndsWhenItIsCancelledOrServed(t *testing.T) {
	contexts(t, func(t *testing.T, c *callContext, end context.CancelCauseFunc) {
		done := c.Done()
		child, cancel := context.WithCancel(c)
		defer cancel()
		c.cancel(errTest)
		<-done
		if !errors.Is(context.Cause(child), errTest) {
			t.Errorf("what is made of it has ended because of %v", context.Cause(child))
		}
		c.close()
		end(errors.New("another"))
		if !errors.Is(context.Cause(c), errTest) {
			t.Errorf("it has ended because of %v, want the first reason", context.Cause(c))
		}
	})
	contexts(t, func(t *testing.T, c *callContext, _ context.CancelCauseFunc) {
		child, cancel := context.WithCancel(c)
		defer cancel()
		c.close()
		<-child.Done()
		if !errors.Is(c.Err(), context.Canceled) || !errors.Is(context.Cause(c), context.Canceled) {
			t.Errorf("it has been served and ended with %v, because of %v", c.Err(), context.Cause(c))
		}
	})
}
