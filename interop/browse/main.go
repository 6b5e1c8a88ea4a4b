// Command browse is a browser for tests in which no person has to click, as the
// program that the variable BROWSER names:
//
//	browse URL
//
// It opens the page, keeps cookies and follows redirects on this machine, until one
// leads to a page: mostly that of a sign-in's callback.
//
// Each start adds a line with the URL to the file that BROWSE_LOG names. If
// BROWSE_HOLD names a file, the page is opened once that is there.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"time"
)

// What tests say in the environment.
const (
	logVariable  = "BROWSE_LOG"
	holdVariable = "BROWSE_HOLD"
)

// patience bounds all of it: no test leaves a browser behind.
const patience = time.Minute

func main() {
	time.AfterFunc(patience, func() {
		fmt.Fprintln(os.Stderr, "browse: the page takes too long")
		os.Exit(1)
	})
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "browse:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return errors.New("usage: browse URL")
	}
	page := os.Args[1]
	if err := record(page); err != nil {
		return err
	}
	if hold := os.Getenv(holdVariable); hold != "" {
		for _, err := os.Stat(hold); err != nil; _, err = os.Stat(hold) {
			time.Sleep(10 * time.Millisecond)
		}
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	client := &http.Client{Jar: jar, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if len(via) > 20 {
			return errors.New("too many redirects")
		}
		return checkHost(req.URL)
	}}
	at, err := url.Parse(page)
	if err != nil {
		return err
	}
	if err := checkHost(at); err != nil {
		return err
	}
	res, err := client.Get(at.String())
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s: %s", res.Status, text)
	}
	return err
}

// record adds the page to the file that the test reads. One write keeps the
// lines of several processes apart.
func record(page string) error {
	name := os.Getenv(logVariable)
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(page + "\n")
	return errors.Join(err, f.Close())
}

// checkHost refuses pages that are not on this machine.
func checkHost(at *url.URL) error {
	if ip := net.ParseIP(at.Hostname()); at.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%s is not on this machine", at.Host)
	}
	return nil
}
